"""Figures of the chapter, each from records."""

from rlrepro.cases.value_pass import WAYS
from rlrepro.cases.value_pass.availability import needs_rllib
from rlrepro.evidence import figures
from rlrepro.evidence.estimates import growth
from rlrepro.evidence.records import Records

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
    for way in ("released", "no_grad", "chunked"):
        peaks = records.along("value_pass.peak", "rows", way=way, network="nature", modules=1)
        figures.draw_line(axes, peaks, COLORS[way], f"{NAMES[way]}: size$^{{{growth(peaks):.2f}}}$")
    figures.count_axis(axes.xaxis, peaks)
    figures.bytes_axis(axes.yaxis)
    axes.set(xlabel="train batch (timesteps)", ylabel="peak memory of the value pass")
    figures.equal_decades(axes)
    figures.label_lines(axes)
    record = records.get("value_pass.peak", way="chunked")
    figures.caption(figure, record, f"Nature CNN, minibatch_size={record.setting['minibatch']}")
    return figure


@needs_rllib
def plot_peak_against_minibatch(records: Records):
    """Peak of a whole update against `minibatch_size`."""
    figure, axes = figures.new_figure("Peak memory of an update against minibatch_size")
    for way in WAYS:
        peaks = records.along("value_pass.update_peak", "minibatch", way=way, network="nature")
        figures.draw_line(axes, peaks, COLORS[way], NAMES[way])
    figures.count_axis(axes.xaxis, peaks)
    figures.bytes_axis(axes.yaxis)
    axes.set(xlabel="minibatch_size (timesteps)", ylabel="peak memory of an update")
    figures.label_lines(axes)
    record = records.get("value_pass.update_peak", network="nature")
    figures.caption(figure, record, f"Nature CNN, {record.setting['rows']:,} timesteps")
    return figure


@needs_rllib
def plot_live_by_stage(records: Records):
    """What is live at three moments of the value pass."""
    live = records.all("value_pass.live")
    stages = list(dict.fromkeys(record.setting["stage"] for record in live))
    values = [
        (f"{stage}, {NAMES[way]}", records.get("value_pass.live", way=way, stage=stage), COLORS[way])
        for stage in stages
        for way in WAYS
    ]
    figure = _bars("What the value pass holds, and when", values)
    figures.caption(figure, live[0], f"Nature CNN, {live[0].setting['rows']:,} timesteps")
    return figure


@needs_rllib
def plot_thread(records: Records):
    """Peak of an update at the sizes of ray-project/ray#58679."""
    ways = ("old stack", *WAYS)
    peaks = [records.get("value_pass.update_peak", way=way, network="recurrent") for way in ways]
    values = [(NAMES[way], peak, COLORS[way]) for way, peak in zip(ways, peaks, strict=True)]
    figure = _bars("One update of a recurrent network, in both API stacks", values)
    setting = peaks[0].setting
    figures.caption(figure, peaks[0], f"LSTM, {setting['rows']:,} timesteps, minibatch_size={setting['minibatch']:,}")
    return figure


def _bars(title: str, values):
    figure, axes = figures.new_figure(title, height=0.55 * len(values) + 0.9)
    figures.draw_values(axes, values, scale=MIB)
    axes.set(xlabel="memory (MiB)")
    return figure
