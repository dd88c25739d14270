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
    """Shares of each part in the bytes of a stored transition and of an update, against the number of actions."""
    figure, panels = figures.new_figure(
        "With many actions, nearly all bytes are spent per action", width=8.6, height=9, rows=2
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
            for part, size in parts.items():
                figures.add_row(figure, f"{title}: {part}", f"{counts[position]:,}", size, "B")
        axes.set_xticks(range(len(counts)), [f"{count:,}" for count in counts])
        axes.set(xlabel="actions", ylabel="% of the bytes", ylim=(0, 112), yticks=range(0, 101, 25))
        axes.set_title(title, loc="left", fontsize=11)
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.2), fontsize=9.5, frameon=False)
    record = records.get("large_actions.update_peak", features=1)
    figures.caption(figure, record, "predicted from shapes; warm colors: per action")
    return figure


def plot_peaks(records: Records):
    """Peak of one critic's update with a whole batch against the number of actions, planned and measured."""
    figure, axes = figures.new_figure(f"One critic, forward and backward, a batch of {BATCH}", width=8.6, height=4.6)
    ways = {"plain": (figures.BUGGY, "as Pearl does it"), "factored": (figures.OURS, "FactoredQ")}
    for way, (color, label) in ways.items():
        planned = records.series("large_actions.planned_peak", "actions", way=way, rows=BATCH)
        measured = records.along("large_actions.critic_peak", "actions", way=way, rows=BATCH)
        figures.draw_line(axes, planned, color, label, "-", unit="B")
        figures.draw_line(axes, measured, color, f"_{label}, measured", "o")
    card = dict.fromkeys((min(planned), max(planned)), CARD_GIB * 2**30)
    figures.draw_line(axes, card, figures.NEUTRAL, f"a GPU of {CARD_GIB:.0f} GiB", ":", unit="B")
    figures.count_axis(axes.xaxis, planned)
    figures.bytes_axis(axes.yaxis)
    figures.label_lines(axes)
    axes.set(xlabel="actions", ylabel="peak")
    record = records.where("large_actions.critic_peak", rows=BATCH)[-1]
    figures.caption(figure, record, "lines: planned; points: measured")
    return figure


def plot_since_start(records: Records):
    """Peak of an update against the transitions stored since the start."""
    figure, axes = figures.new_figure("It looks like a leak until a batch is full", width=7.6)
    peaks = records.along("large_actions.since_start_peak", "stored")
    figures.draw_line(axes, {stored: peak.value / 2**20 for stored, peak in peaks.items()}, figures.BUGGY, "_an update")
    axes.axvline(BATCH, color=figures.NEUTRAL, ls=":", lw=1.5)
    axes.set(xlabel="transitions since the start", ylabel="peak of an update, MiB", xticks=list(peaks))
    axes.set_ylim(bottom=0)
    text_options = {"xycoords": ("data", "axes fraction"), "color": figures.NEUTRAL, "fontsize": 9}
    axes.annotate(f" a batch of {BATCH}", (BATCH, 0.02), **text_options)
    record = records.where("large_actions.since_start_peak")[-1]
    figures.caption(figure, record, f"{record.setting['actions']} actions")
    return figure
