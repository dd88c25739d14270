"""Figures of the chapter, each from records."""

from rlrepro.cases.value_pass import WAYS
from rlrepro.cases.value_pass.availability import needs_rllib
from rlrepro.evidence import figures
from rlrepro.evidence.growth import growth_exponent
from rlrepro.evidence.records import Records
from rlrepro.lab.units import format_value

MIB = 2**20
NAMES = {
    "released": "RLlib",
    "no_grad": "without gradients",
    "chunked": "our fix",
    "old stack": "the old API stack",
}
COLORS = {
    "released": figures.BUGGY,
    "no_grad": figures.NEUTRAL,
    "chunked": figures.OURS,
    "old stack": figures.UPSTREAM,
}


@needs_rllib
def plot_peak_against_rows(records: Records):
    """Peak of the value pass against the train batch, with fitted exponents."""
    figure, axes = figures.new_figure("Peak memory of the value pass against the train batch")
    labels = []
    for way in ("released", "no_grad", "chunked"):
        series = records.series("value_pass.peak", "rows", way=way, network="nature", modules=1)
        rows, peaks = list(series), list(series.values())
        axes.plot(rows, peaks, "o-", color=COLORS[way])
        text = f"{NAMES[way]}: rows$^{{{growth_exponent(rows, peaks):.2f}}}$"
        labels.append((rows[-1], peaks[-1], text, COLORS[way]))
    figures.count_axis(axes.xaxis, rows)
    figures.bytes_axis(axes.yaxis)
    axes.set(xlabel="train batch (timesteps)", ylabel="peak memory of the value pass")
    figures.label_lines_at_side(axes, labels)
    record = records.get("value_pass.peak", way="chunked")
    figures.caption(figure, record, f"Nature CNN, minibatch_size={record.setting['minibatch']}")
    return figure


@needs_rllib
def plot_peak_against_minibatch(records: Records):
    """Peak of a whole update against `minibatch_size`."""
    figure, axes = figures.new_figure("Peak memory of an update against minibatch_size")
    labels = []
    for way in WAYS:
        series = records.series("value_pass.update_peak", "minibatch", way=way, network="nature")
        sizes, peaks = list(series), list(series.values())
        axes.plot(sizes, peaks, "o-", color=COLORS[way])
        labels.append((sizes[-1], peaks[-1], NAMES[way], COLORS[way]))
    figures.count_axis(axes.xaxis, sizes)
    figures.bytes_axis(axes.yaxis)
    axes.set(xlabel="minibatch_size (timesteps)", ylabel="peak memory of an update")
    figures.label_lines_at_side(axes, labels)
    record = records.get("value_pass.update_peak", network="nature")
    figures.caption(figure, record, f"Nature CNN, {record.setting['rows']:,} timesteps")
    return figure


@needs_rllib
def plot_live_by_stage(records: Records):
    """What is live at three moments of the value pass."""
    live = records.all("value_pass.live")
    stages = list(dict.fromkeys(record.setting["stage"] for record in live))
    labels = [f"{stage}, {NAMES[way]}" for stage in stages for way in WAYS]
    values = [records.get("value_pass.live", way=way, stage=stage).value for stage in stages for way in WAYS]
    figure = _bars("What the value pass holds, and when", labels, values, list(WAYS) * len(stages), height=3.4)
    figures.caption(figure, live[0], f"Nature CNN, {live[0].setting['rows']:,} timesteps")
    return figure


@needs_rllib
def plot_thread(records: Records):
    """Peak of an update at the sizes of ray-project/ray#58679."""
    ways = ("old stack", *WAYS)
    peaks = [records.get("value_pass.update_peak", way=way, network="recurrent") for way in ways]
    labels = [NAMES[way] for way in ways]
    figure = _bars(
        "One update of a recurrent network, in both API stacks",
        labels,
        [each.value for each in peaks],
        ways,
        height=2.6,
    )
    setting = peaks[0].setting
    figures.caption(figure, peaks[0], f"LSTM, {setting['rows']:,} timesteps, minibatch_size={setting['minibatch']:,}")
    return figure


def _bars(title: str, labels, values, ways, height: float):
    figure, axes = figures.new_figure(title, height=height)
    for position, (value, way) in enumerate(zip(values, ways, strict=True)):
        axes.barh(position, value / MIB, color=COLORS[way], height=0.6)
        text = f" {format_value(value, 'B')}"
        axes.text(value / MIB, position, text, va="center", color=COLORS[way], fontweight="bold")
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.set(xlabel="memory (MiB)")
    return figure
