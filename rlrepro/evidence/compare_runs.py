"""Runs on several machines: what each says of a claim, whether they agree, and how the machines differ."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from matplotlib.patches import Rectangle

from rlrepro.evidence import figures
from rlrepro.evidence.claims import Claim, Verdict
from rlrepro.evidence.records import Records, read_records
from rlrepro.evidence.verdicts import markdown_row
from rlrepro.lab.units import format_value

UNTESTED = "not testable here"
SHOWN = {  # an outcome's colour and the mark that tells it without colours
    "supported": (figures.OURS, "✓"),
    "refuted": (figures.BUGGY, "✗"),
    "partly": (figures.UPSTREAM, "~"),
    UNTESTED: ("#BBBBBB", "?"),
}


@dataclass(frozen=True)
class Evidence:
    """The records of one run on one machine and device."""

    label: str
    records: Records

    @property
    def traits(self) -> dict[str, str]:
        """What may make its measurements differ from another's."""
        last = self.records[-1]
        machine = last.machine
        return {
            "processor": machine.cpu,
            "cores": str(machine.cores),
            "memory": format_value(machine.memory_bytes, "B"),
            "GPU": machine.gpu or "none",
            "device": last.device,
            "profile": ", ".join(sorted({record.profile for record in self.records})),
            "torch": machine.versions.get("torch", "unknown"),
            "Python": machine.python,
            "system": machine.system,
            "measured": f"{last.taken_at:%Y-%m-%d}",
        }


@dataclass(frozen=True)
class Judged:
    """A claim and what each run says of it, by the run's label."""

    claim: Claim
    verdicts: dict[str, Verdict]

    @property
    def tested(self) -> dict[str, Verdict]:
        return {label: verdict for label, verdict in self.verdicts.items() if verdict.outcome != UNTESTED}

    @property
    def agreed(self) -> bool:
        """Whether all runs that could test the claim came to the same verdict."""
        return len({verdict.outcome for verdict in self.tested.values()}) <= 1


def best(judged: Judged) -> tuple[str, Verdict]:
    """The first run that could test the claim, and what it says; the first run of all where none could."""
    return next(iter((judged.tested or judged.verdicts).items()))


def title(chapter: str) -> str:
    """A chapter's name in a word or two."""
    return f"{int(chapter[:2])} {chapter[3:].removesuffix('_oom').replace('_', ' ').replace('logp old', 'logp_old')}"


def gather(run: str | Path, results: str | Path) -> list[Evidence]:
    """The run's evidence first, where it has records, then that of each folder of `results`, one for each machine and
    device found there. Raises FileNotFoundError where there are no records at all."""
    found = [("this run", read_records(run))] if Path(run).exists() else []
    for folder in sorted(Path(results).glob("*/")):
        found.append((f"results/{folder.name}" if folder.name == "this run" else folder.name, read_records(folder)))
    evidence = []
    for label, records in found:
        places = records.by_place()
        for (machine, device), there in places.items():
            name = label if len(places) == 1 else f"{label}, {machine}, {device}"
            evidence.append(Evidence(name, there))
    if not evidence:
        raise FileNotFoundError(f"no records in {run} or {results}; `rlrepro reproduce` makes them")
    return evidence


def judge_all(evidence: list[Evidence], claims: list[Claim]) -> list[Judged]:
    """Each claim, judged by each run's records on their own."""
    return [Judged(claim, {each.label: claim.verdict(each.records) for each in evidence}) for claim in claims]


def how_they_differ(evidence: list[Evidence], labels) -> str:
    """The traits in which these runs differ, as one line: what may be why they do not agree."""
    chosen = [each.traits for each in evidence if each.label in set(labels)]
    told = [
        f"{trait} {' / '.join(dict.fromkeys(each[trait] for each in chosen))}"
        for trait in chosen[0]
        if len({each[trait] for each in chosen}) > 1 and trait != "measured"
    ]
    return "; ".join(told) or "nothing but chance: the machine, the profile and the versions are the same"


def evidence_markdown(evidence: list[Evidence]) -> str:
    """A table of the machines: a column for each run."""
    traits = [each.traits for each in evidence]
    rows = [markdown_row("", *(each.label for each in evidence)), "|---" * (len(evidence) + 1) + "|"]
    return "\n".join([*rows, *(markdown_row(trait, *(each[trait] for each in traits)) for trait in traits[0])])


def judged_markdown(judged: list[Judged]) -> str:
    """The claims as a table: verdict, figure and reason of the first run that could tell, what others say, and a link
    to the cell that measured it."""
    lines = ["| | claim | verdict | figure, and why | other machines |", "|---|---|---|---|---|"]
    for each in judged:
        label, verdict = best(each)
        first = next(iter(each.verdicts))
        others = {name: other for name, other in each.tested.items() if name != label}
        where = "" if label == first else f" (by {label})"
        link = f"[{each.claim.id}]({each.claim.chapter}.ipynb#{each.claim.section.replace(' ', '-')})"
        said = "; ".join(f"{name}: {other.outcome}, {other.figure}" for name, other in others.items())
        told = f"{verdict.figure}; *{verdict.why}*"
        lines.append(markdown_row(link, each.claim.sentence, f"**{verdict.outcome}**{where}", told, said or "–"))
    return "\n".join(lines)


def disagreement_markdown(judged: list[Judged], evidence: list[Evidence]) -> str:
    """One line a claim on which runs disagree, with what may be why; or that there is none."""
    lines = []
    for each in judged:
        if not each.agreed:
            said = "; ".join(f"{label}: {verdict.outcome} ({verdict.figure})" for label, verdict in each.tested.items())
            lines.append(
                f"- **{each.claim.id}**, {each.claim.sentence}. {said}. "
                f"The runs differ in: {how_they_differ(evidence, each.tested)}."
            )
    both = sum(len(each.tested) > 1 for each in judged)
    if len(evidence) < 2:
        return "There is one run only: nothing to compare it with."
    told = f"Of {len(judged)} claims, {both} were tested by more than one run; {both - len(lines)} of them agree."
    return "\n".join([told, "", *lines])


def plot_verdicts(judged: list[Judged], label: str):
    """A tile for each claim, in the colour of what this run says of it; pale, what the first run that could says, where
    this one could not test it; and a black edge where runs disagree."""
    chapters = list(dict.fromkeys(each.claim.chapter for each in judged))
    counted = Counter(best(each)[1].outcome for each in judged)
    told = ", ".join(f"{counted[outcome]} {outcome}" for outcome in SHOWN if counted[outcome])
    figure, axes = figures.new_figure(f"{len(judged)} claims: {told}", height=0.7 * len(chapters) + 1)
    for row, chapter in enumerate(chapters):
        for column, each in enumerate(one for one in judged if one.claim.chapter == chapter):
            color, mark = SHOWN[best(each)[1].outcome]
            own = each.verdicts[label].outcome != UNTESTED or not each.tested
            edge = {"edgecolor": "black", "linewidth": 2.5} if not each.agreed else {}
            axes.add_patch(Rectangle((column, row), 0.92, 0.86, facecolor=color if own else "white", **edge))
            if not own:
                axes.add_patch(Rectangle((column, row), 0.92, 0.86, facecolor=color, alpha=0.25))
            text = {"ha": "center", "va": "center", "color": "white" if own else color}
            axes.text(column + 0.46, row + 0.31, mark, fontsize=14, fontweight="bold", **text)
            axes.text(column + 0.46, row + 0.67, each.claim.id, fontsize=8.5, **text)
    axes.set_yticks([row + 0.43 for row in range(len(chapters))], [title(name) for name in chapters])
    axes.tick_params(length=0)
    axes.set_xticks([])
    axes.set_xlim(0, max(Counter(each.claim.chapter for each in judged).values()))
    axes.set_ylim(len(chapters), 0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(
        "✓ supported   ✗ refuted   ~ partly   ? not tested   pale: by another run   black edge: runs disagree",
        fontsize=8,
    )
    figure.described = f"One tile for each claim, a row for each chapter. {told.capitalize()}. " + "; ".join(
        f"{each.claim.id} {best(each)[1].outcome}" for each in judged
    )
    return figure
