"""What all labs share: an answer is tried, compared with the others', and drawn among them."""

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
    """A fix returns something else than the code that it replaces; the message says what."""


@dataclass(frozen=True)
class Trial:
    """What an answer costs beside the others, and what it loses although its results are the same.

    `costs` has samples for "released", "upstream" (if there is a fix), "yours" and "ours"; times were taken in turns.
    `within` is how many times the cost of ours a good answer may have.
    """

    costs: dict[str, list[float]]
    unit: str  # "B" or "s"
    what: str  # was measured
    within: float
    loses: tuple[str, ...] = ()

    def times_ours(self, who: str = "yours") -> float:
        """The cost over that of our fix: the median of the turns."""
        return median(a / b for a, b in zip(self.costs[who], self.costs["ours"], strict=True))

    def figure(self):
        """A mark for each fix on one logarithmic axis."""
        shown = [who for who in NAMES if who in self.costs]
        title = f"Your fix: {_ratio(self.times_ours())} as much as ours"
        figure, axes = figures.new_figure(title, height=1 + 0.45 * len(shown))
        for row, who in enumerate(shown):
            cost = median(self.costs[who])
            axes.plot(cost, row, "o", color=COLORS[who], markersize=11)
            axes.hlines(row, min(self.costs[who]), max(self.costs[who]), color=COLORS[who])
            axes.annotate(
                format_value(cost, self.unit), (cost, row), (0, 9), textcoords="offset points", ha="center", fontsize=10
            )
        axes.set_yticks(range(len(shown)), [NAMES[who] for who in shown])
        figures.bytes_axis(axes.xaxis) if self.unit == "B" else figures.seconds_axis(axes.xaxis)
        axes.set_xlabel(self.what)
        axes.set_ylim(len(shown) - 0.5, -0.7)
        axes.margins(x=0.15)
        values = (f"{NAMES[who]}: {format_value(median(self.costs[who]), self.unit)}" for who in shown)
        figure.described = f"{title}. {self.what}. {'; '.join(values)}."
        return figure


@dataclass(frozen=True)
class Graded:
    """An answer's grade ("none", "wrong", "half" or "right"), what to tell the reader, and what was measured."""

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
    gained = median(a / b for a, b in zip(trial.costs["released"], trial.costs["yours"], strict=True))
    told = f"the same results, and {_ratio(gained)} less than as released" if gained > 1 else "the same results"
    loses = list(trial.loses)
    if trial.times_ours() > trial.within:
        loses.append(f"It still takes {_ratio(trial.times_ours())} as much as our fix. {module.STILL}")
    if loses:
        return Graded("half", f"half right: {told}. What it loses: {' '.join(loses)}", trial)
    return Graded("right", f"right: {told}.", trial)


def lab(chapter: str, answer):
    """Run your own fix beside the release that has the problem, upstream's fix where there is one, and ours.

    Prints whether the results are the same and what the fix loses, if anything; returns a figure of what each takes.

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
