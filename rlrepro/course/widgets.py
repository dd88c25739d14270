"""Widgets for notebooks: pictures that follow sliders, with a kernel or, on a static page, without one."""

from collections.abc import Iterable
from html import escape

import ipywidgets as widgets
from IPython.display import HTML

from rlrepro.evidence import figures
from rlrepro.fit import Plan
from rlrepro.lab.units import format_value

GIB = 2**30
WIDE = {"width": "100%"}
ON_INPUT = """[...this.closest('div').children].slice(1).forEach((picture, index) => {
  picture.hidden = index != this.value;
  if (!picture.hidden) this.setAttribute('aria-valuetext', picture.firstChild.textContent);
})"""


def plan_picture(planned: Plan, gib: float):
    """The memory that each stage of an update needs, against that of the GPU."""
    failing = planned.failing_stage(gib)
    verdict = f"{failing} does not fit on {gib:g} GiB" if failing else f"fits on {gib:g} GiB"
    sizes = {"rollout": planned.rollout, "max_batchsize": planned.max_batchsize, "batch_size": planned.batch_size}
    sizes_text = ", ".join(f"{name} {size:,}" for name, size in sizes.items() if size)
    figure, axes = figures.new_figure(f"{verdict}\n{sizes_text}", height=3)
    for position, (stage, needed) in enumerate(planned.needed.items()):
        color = figures.BUGGY if needed > gib * GIB else figures.UPSTREAM
        axes.barh(position, planned.stages[stage] / GIB, color=color, height=0.55)
        axes.barh(position, needed / GIB, color=color, height=0.55, alpha=0.35)
        axes.text(needed / GIB, position, f" {format_value(needed, 'B')}", va="center", color=color, fontweight="bold")
    axes.axvline(gib, color=figures.NEUTRAL, ls="--", lw=1.5)
    axes.set_yticks(range(len(planned.stages)), list(planned.stages))
    axes.invert_yaxis()
    axes.set_xlim(0, 1.35 * max(gib, planned.peak_bytes / GIB))
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("needed (GiB); pale: operators' own memory; dashed: the GPU")
    return figure


def explore(make_plan, *, widths: Iterable[int], rollout: int = 2048, gib: float = 8) -> widgets.Widget:
    """Sliders for GPU memory, network and sizes above `plan_picture`. Each change makes a new plan, which
    needs a kernel.

    `make_plan(width)` returns a Plan for the network of that width.
    """
    plans = {}
    powers = {"base": 2, "step": 1, "readout_format": ",.0f"}
    controls = {
        "gib": widgets.FloatLogSlider(gib, base=2, min=-4, max=9, step=0.5, description="GPU, GiB"),
        "width": widgets.SelectionSlider(options=list(widths), description="width"),
        "rollout": widgets.FloatLogSlider(rollout, min=0, max=20, description="rollout", **powers),
        "max_batchsize": widgets.FloatLogSlider(256, min=0, max=14, description="max_batchsize", **powers),
        "batch_size": widgets.FloatLogSlider(64, min=0, max=14, description="batch_size", **powers),
    }
    picture = widgets.HTML(layout=WIDE)

    def draw(_=None):
        width = controls["width"].value
        sizes = {name: int(controls[name].value) for name in ("rollout", "max_batchsize", "batch_size")}
        try:
            plans[width] = plans.get(width) or make_plan(width)
            figure = plan_picture(plans[width].at(**sizes), controls["gib"].value)
        except Exception as error:  # a widget would swallow it
            figure, axes = figures.new_figure(f"{type(error).__name__}: {error}", height=1)
            axes.set_axis_off()
        picture.value = figure.html(table=False)

    for control in controls.values():
        control.style.description_width, control.continuous_update = "9em", False
        control.observe(draw, names="value")
    draw()
    return widgets.VBox([*controls.values(), picture])


def slide(pictures: dict[str, figures.Figure], name: str) -> HTML:
    """A slider that moves between finished pictures, so that it works on a page without a kernel. Its arrow
    keys are kept from JupyterLab's own shortcuts.

    `name` is what the slider sets; `pictures` has a figure for each of its settings.
    """
    titles = [escape(f"{name} {setting}") for setting in pictures]
    slider = f'<input type="range" value="0" max="{len(titles) - 1}" aria-valuetext="{titles[0]}" autocomplete="off"'
    blocks = [
        f"<b>{title}</b>{picture.html(table=False)}" for title, picture in zip(titles, pictures.values(), strict=True)
    ]
    return HTML(
        '<div class="rlrepro-slide" onkeydown="event.stopPropagation()">'
        f'<label>{escape(name)} {slider} oninput="{ON_INPUT}"></label>'
        f"<div>{'</div><div hidden>'.join(blocks)}</div></div>"
    )
