"""Figures of the chapter."""

import numpy as np
from matplotlib.colors import ListedColormap

from rlrepro.cases.two_batch_sizes import BUGGY, NEWEST
from rlrepro.evidence import figures
from rlrepro.evidence.records import Records
from rlrepro.fit import Plan
from rlrepro.lab.units import format_value

MIB = 2**20
SHADES = {"collect": "#EFEFEF", "returns": "#D9E8F5", "logp_old": "#FBE3D6", "learn": "#DDF1EA"}


def plot_profile(records: Records, updates: dict[str, dict]):
    """Live bytes over one update in each release, with its stages shaded and named."""
    figure, panels = figures.new_figure("One update, stage by stage", rows=2, height=6)
    highest = max(max(live for _, live in update["trace"]) for update in updates.values())
    for axes, (release, update) in zip(panels, updates.items(), strict=True):
        seconds, live = np.array(update["trace"]).T
        for stage, start, end in update["spans"]:
            axes.axvspan(start, end, color=SHADES[stage], lw=0)
            if stage != "collect":  # too narrow for its name
                text, transform = f"{stage}\n{format_value(update['stages'][stage], 'B')}", axes.get_xaxis_transform()
                axes.text((start + end) / 2, 1.02, text, transform=transform, ha="center", fontsize=9.5)
            figures.add_row(figure, f"tianshou {release}", stage, update["stages"].get(stage, 0), "B")
        axes.plot(seconds, live / MIB, color=figures.BUGGY if release == BUGGY else figures.UPSTREAM, lw=0.9)
        axes.set(ylabel=f"tianshou {release}\nlive memory (MiB)", xlim=(0, seconds[-1]))
        axes.set_ylim(0, 1.05 * highest / MIB)
        axes.grid(visible=False)
    panels[-1].set_xlabel("seconds")
    setting = records.get("two_batch_sizes.stage_peak").setting
    sizes = ", ".join(f"{name}={setting[name]:,}" for name in ("max_batchsize", "batch_size"))
    figures.caption(figure, records[-1], f"{_rollout(setting)}, {sizes}")
    return figure


def plot_grid(records: Records):
    """Which pairs of sizes fit on the virtual card, by release. A cell that does not fit names the stage that fails."""
    figure, panels = figures.new_figure("Which sizes fit? Each cell is one update", columns=2, width=9.5)
    for axes, release in zip(panels, (BUGGY, NEWEST), strict=True):
        failing = {
            (record.setting["max_batchsize"], record.setting["batch_size"]): record.setting["failed"]
            for record in records.all("two_batch_sizes.fits", release=release)
        }
        axes.set_title(f"tianshou {release}", fontsize=11)
        _heat_map(axes, failing)
    panels[-1].set_ylabel("")
    record = records.get("two_batch_sizes.fits")
    figures.caption(figure, record, f"{_rollout(record.setting)}, {record.setting['gib']:g} GiB")
    return figure


def plot_planned_grid(records: Records, planned: Plan, max_batchsizes, batch_sizes, gib: float):
    """The same heat map from a plan; nothing is run."""
    title = f"What fits on {gib:g} GiB, planned for a rollout of {planned.rollout:,}"
    figure, axes = figures.new_figure(title, height=4.6)
    failing = {
        (chunk, batch): planned.at(max_batchsize=chunk, batch_size=batch).failing_stage(gib)
        for chunk in max_batchsizes
        for batch in batch_sizes
    }
    _heat_map(axes, failing)
    figures.caption(figure, records[-1], "tianshou 2.0.1, planned with FakeTensors")
    return figure


def _heat_map(axes, failing: dict[tuple[int, int], str | None]) -> None:
    """Cells of (max_batchsize, batch_size), each with the stage that fails, or None if everything fits."""
    chunks, batches = (sorted({pair[index] for pair in failing}) for index in (0, 1))
    fails = [[failing[chunk, batch] is not None for batch in batches] for chunk in chunks]
    colors = ListedColormap([figures.UPSTREAM, figures.BUGGY])
    axes.pcolormesh(fails, cmap=colors, vmin=0, vmax=1, edgecolors="white", lw=2)
    for row, chunk in enumerate(chunks):
        for column, batch in enumerate(batches):
            text = failing[chunk, batch] or "fits"
            style = {"ha": "center", "va": "center", "color": "white", "fontsize": 8, "fontweight": "bold"}
            axes.text(column + 0.5, row + 0.5, text.replace("_", "_\n"), **style)
            axes.figure.rows.append((axes.get_title(), f"{chunk:,} and {batch:,}", text, ""))
    axes.set_xticks(np.arange(len(batches)) + 0.5, [f"{size:,}" for size in batches])
    axes.set_yticks(np.arange(len(chunks)) + 0.5, [f"{size:,}" for size in chunks])
    axes.set(xlabel="batch_size", ylabel="max_batchsize")
    axes.grid(visible=False)


def plot_collecting(records: Records):
    """The peak memory of one step of the collector, by release."""
    figure, axes = figures.new_figure("Memory of one step of collecting", height=2.8)
    steps = records.all("two_batch_sizes.collecting")
    values = []
    for record in steps:
        gradients, no_grad = record.setting["with_gradients"], ", no_grad" if record.setting["no_grad"] else ""
        name = f"tianshou {record.setting['release']}{no_grad}: {'with' if gradients else 'without'} gradients"
        values.append((name, record, figures.BUGGY if gradients else figures.UPSTREAM))
    figures.draw_values(axes, values, scale=MIB)
    axes.set_xlabel("peak of live memory (MiB)")
    setting = steps[-1].setting
    figures.caption(figure, steps[-1], f"{setting['network']} network, {setting['envs']} environments")
    return figure


def plot_largest_batch(records: Records):
    """The largest minibatch of a gradient step that fits on the article's GPU, for several networks."""
    largest = records.all("two_batch_sizes.largest_batch")
    figure, axes = figures.new_figure(f"The largest minibatch on {largest[0].setting['gib']:g} GiB", height=2.9)
    values = [(record.setting["network"], record, figures.UPSTREAM) for record in largest]
    open_ended = [record.setting["network"] for record in largest if record.setting["at_least"]]
    figures.draw_values(axes, values, unit="count", log=True, at_least=open_ended)
    axes.axvline(8, color=figures.BUGGY, ls="--", lw=1.5)
    axes.set_xlim(left=4)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("batch_size (dashed: the article's 8)")
    figures.caption(figure, largest[0], "tianshou 2.0.1, planned with FakeTensors, without margins")
    return figure


def plot_random_updates(records: Records):
    """Planned over measured for each stage of random updates, from records of `error_study`: tensors alone, and the
    plan with its margin over what torch allocated."""
    stages = records.all("two_batch_sizes.random_plan")
    tensors = np.array([record.value for record in stages])
    with_margin = np.array([record.setting["with_margin"] for record in stages])
    close, below = (np.abs(tensors - 1) <= 0.01).mean(), int((with_margin < 1).sum())
    title = f"{close:.1%} of stages within 1%; with the margin, {below} are too low"
    figure, axes = figures.new_figure(title, height=4)
    algorithms = sorted({record.setting["algorithm"] for record in stages})
    heights = np.array([algorithms.index(record.setting["algorithm"]) for record in stages], dtype=float)
    spread = np.random.default_rng(0).uniform(-0.12, 0.12, len(stages))
    for shift, ratios, color, name in (
        (-0.17, tensors, figures.UPSTREAM, "tensors"),
        (0.17, with_margin, figures.OURS, "with margin"),
    ):
        axes.plot(ratios, heights + shift + spread, "o", color=color, ms=4, mew=0, label=name)
        for algorithm, height in zip(algorithms, range(len(algorithms)), strict=True):
            figures.add_row(figure, f"{algorithm}, {name}", "median", np.median(ratios[heights == height]), "ratio")
    axes.axvline(1, color=figures.BUGGY, ls="--", lw=1.5)
    axes.set_yticks(range(len(algorithms)), algorithms)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("planned over measured")
    axes.legend(loc="upper center", frameon=False)
    numbers = {record.setting["number"] for record in stages}
    figures.caption(figure, stages[-1], f"{len(numbers):,} random updates of random networks, {len(stages):,} stages")
    return figure


def _rollout(setting) -> str:
    return f"{setting['network']} network, {setting['rows']:,} transitions"
