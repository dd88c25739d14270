"""What all labs share: an answer is tried, compared with the other fixes, and plotted beside them."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rlrepro.cases import chapters
from rlrepro.evidence import figures
from rlrepro.lab.units import format_value

LABS = {  # by chapter; the file with its lab
    number: name for number, name in chapters().items() if Path(__file__).with_name(f"{name}.py").exists()
}
NAMES = {"released": "as released", "upstream": "upstream's fix", "yours": "yours", "ours": "our fix"}
COLORS = {"released": figures.BUGGY, "upstream": figures.UPSTREAM, "yours": "black", "ours": figures.OURS}


class WrongResult(Exception):
    """A fix does not return the same as the code that it replaces; the message says what differs."""


@dataclass(frozen=True)
class Trial:
    """What an answer costs compared with the other fixes, and its drawbacks if its results are the same.

    `costs` has samples for "released", "upstream" (if there is a fix), "yours" and "ours"; times were measured
    alternately. A good answer costs at most `within` times as much as ours.
    """

    costs: dict[str, list[float]]
    unit: str  # "B" or "s"
    quantity: str  # what was measured
    within: float
    drawbacks: tuple[str, ...] = ()

    def times_ours(self, variant: str = "yours") -> float:
        """The cost relative to our fix: the median of the turns."""
        return median(a / b for a, b in zip(self.costs[variant], self.costs["ours"], strict=True))

    def figure(self):
        """A mark for each fix on one logarithmic axis."""
        variants = [variant for variant in NAMES if variant in self.costs]
        title = f"Your fix: {_ratio(self.times_ours())} as much as ours"
        figure, axes = figures.new_figure(title, height=1 + 0.45 * len(variants))
        for row, variant in enumerate(variants):
            cost = median(self.costs[variant])
            axes.plot(cost, row, "o", color=COLORS[variant], markersize=11)
            axes.hlines(row, min(self.costs[variant]), max(self.costs[variant]), color=COLORS[variant])
            axes.annotate(
                format_value(cost, self.unit), (cost, row), (0, 9), textcoords="offset points", ha="center", fontsize=10
            )
        axes.set_yticks(range(len(variants)), [NAMES[variant] for variant in variants])
        figures.bytes_axis(axes.xaxis) if self.unit == "B" else figures.seconds_axis(axes.xaxis)
        axes.set_xlabel(self.quantity)
        axes.set_ylim(len(variants) - 0.5, -0.7)
        axes.margins(x=0.15)
        values = (f"{NAMES[variant]}: {format_value(median(self.costs[variant]), self.unit)}" for variant in variants)
        figure.described = f"{title}. {self.quantity}. {'; '.join(values)}."
        return figure


@dataclass(frozen=True)
class Graded:
    """An answer's grade ("none", "wrong", "half" or "right"), the message for the reader, and what was measured."""

    grade: str
    message: str
    trial: Trial | None = None


def grade(chapter: str, answer) -> Graded:
    """Try an answer. Raises KeyError if the chapter has no lab; an exception in the answer becomes a message."""
    if answer is None:
        return Graded(
            "none", "write your fix in place of None and run this cell again; it is then run beside the others."
        )
    if chapter not in LABS:
        raise KeyError(f"chapter {chapter} has no lab in {Path(__file__).parent}; there are labs for {', '.join(LABS)}")
    module = importlib.import_module(f"rlrepro.course.labs.{LABS[chapter]}")
    try:
        trial = module.trial(answer)
    except WrongResult as wrong:
        return Graded("wrong", f"the results are not the same. {wrong}")
    except Exception as error:
        return Graded("wrong", f"your fix could not be run: {type(error).__name__}: {error}")
    gain = median(a / b for a, b in zip(trial.costs["released"], trial.costs["yours"], strict=True))
    summary = (
        f"the same results; the unfixed release takes {_ratio(gain)} as much as yours"
        if gain > 1
        else "the same results"
    )
    drawbacks = list(trial.drawbacks)
    if trial.times_ours() > trial.within:
        drawbacks.append(f"Your fix still takes {_ratio(trial.times_ours())} as much as ours. {module.STILL}")
    if drawbacks:
        return Graded("half", f"half right: {summary}. Drawbacks: {' '.join(drawbacks)}", trial)
    return Graded("right", f"right: {summary}.", trial)


def lab(chapter: str, answer):
    """Run your own fix beside the release that has the problem, upstream's fix where there is one, and ours.

    Prints whether the results are the same and the fix's drawbacks, if any; returns a figure of what each takes.

    Args:
        chapter: such as "3"
        answer: None, or what the chapter asks for
    """
    graded = grade(chapter, answer)
    mark = {"none": "→", "right": "✓"}.get(graded.grade, "✗")
    print(f"{mark} Lab {chapter}: {graded.message}")
    return graded.trial and graded.trial.figure()


def _ratio(value: float) -> str:
    return f"{value:.3g} times" if value < 100 else f"{value:,.0f} times"
