"""Figures of the chapter, each from records."""

from rlrepro.cases.large_actions import ARTICLE_ACTIONS, BATCH, CARD_GIB, predicted_bytes
from rlrepro.evidence import figures
from rlrepro.evidence.records import Records
from rlrepro.lab.units import format_value

SHADES = {  # warm: parts with an entry per action
    "a stored transition": ("#D55E00", "#E69F00", "#F0C987", "#0072B2", "#9CC9E8", "#555555"),
    "an update, per state": ("#D55E00", "#E07B33", "#E69F00", "#F0C987", "#F7E3C0"),
}


def plot_bytes(records: Records):
    """What the bytes of a stored transition and of an update are for, as shares, against the number of actions."""
    figure, panels = figures.new_figure(
        "With many actions, nearly all bytes are spent per action", width=8.6, height=8, rows=2
    )
    counts = sorted({*records.series("large_actions.update_peak", "actions", features=1), ARTICLE_ACTIONS})
    predicted = {
        "a stored transition": [predicted_bytes.transition(count, 1) for count in counts],
        "an update, per state": [predicted_bytes.update(count, 1) for count in counts],
    }
    for axes, (title, by_count) in zip(panels, predicted.items(), strict=True):
        bottoms = [0.0] * len(counts)
        for part, color in zip(by_count[0], SHADES[title], strict=True):
            shares = [100 * parts[part] / sum(parts.values()) for parts in by_count]
            axes.bar(range(len(counts)), shares, bottom=bottoms, color=color, label=part, width=0.7)
            bottoms = [bottom + share for bottom, share in zip(bottoms, shares, strict=True)]
        for position, parts in enumerate(by_count):
            axes.text(position, 101, format_value(sum(parts.values()), "B"), ha="center", va="bottom", fontsize=9)
        axes.set_xticks(range(len(counts)), [f"{count:,}" for count in counts])
        axes.set(ylabel="% of the bytes", ylim=(0, 112), yticks=range(0, 101, 25))
        axes.set_title(f"{title}, by the number of actions", loc="left", fontsize=11)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize=9.5, frameon=False, ncols=2)
    record = records.get("large_actions.update_peak", features=1)
    figures.caption(figure, record, "predicted from shapes; warm colours: per action")
    return figure


def plot_peaks(records: Records):
    """Peak of one critic's update with a whole batch against the number of actions, planned and measured."""
    figure, axes = figures.new_figure(f"One critic, forward and backward, a batch of {BATCH}", width=8.6, height=4.6)
    ways = {"plain": (figures.BUGGY, "as Pearl does it"), "factored": (figures.OURS, "FactoredQ")}
    labels = []
    for way, (color, name) in ways.items():
        planned = records.series("large_actions.planned_peak", "actions", way=way, rows=BATCH)
        measured = records.series("large_actions.critic_peak", "actions", way=way, rows=BATCH)
        axes.plot(list(planned), list(planned.values()), "-", color=color)
        axes.plot(list(measured), list(measured.values()), "o", color=color)
        labels.append((max(planned), planned[max(planned)], name, color))
    axes.plot([min(planned), max(planned)], [CARD_GIB * 2**30] * 2, ":", color=figures.NEUTRAL, lw=1.5)
    labels.append((max(planned), CARD_GIB * 2**30, f"a card of {CARD_GIB:.0f} GiB", figures.NEUTRAL))
    figures.count_axis(axes.xaxis, planned)
    figures.bytes_axis(axes.yaxis)
    figures.label_lines_at_side(axes, labels)
    axes.set(xlabel="actions", ylabel="peak")
    record = records.where("large_actions.critic_peak", rows=BATCH)[-1]
    figures.caption(figure, record, "lines: planned; points: measured")
    return figure


def plot_since_start(records: Records):
    """Peak of an update against the transitions stored since the start."""
    figure, axes = figures.new_figure("It looks like a leak until a batch is full", width=7.6)
    peaks = records.series("large_actions.since_start_peak", "stored")
    axes.plot(list(peaks), [peak / 2**20 for peak in peaks.values()], "o-", color=figures.BUGGY)
    axes.axvline(BATCH, color=figures.NEUTRAL, ls=":", lw=1.5)
    axes.set(xlabel="transitions since the start", ylabel="peak of an update, MiB", xticks=list(peaks))
    axes.set_ylim(bottom=0)
    place = {"xycoords": ("data", "axes fraction"), "color": figures.NEUTRAL, "fontsize": 9}
    axes.annotate(f" a batch of {BATCH}", (BATCH, 0.02), **place)
    record = records.where("large_actions.since_start_peak")[-1]
    figures.caption(figure, record, f"{record.setting['actions']} actions")
    return figure
