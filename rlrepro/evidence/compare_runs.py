"""Runs on several machines side by side: how the machines differ, and where their verdicts do."""

from collections import Counter
from collections.abc import Collection, Sequence

from matplotlib.patches import Rectangle

from rlrepro.evidence import figures
from rlrepro.evidence.tables import markdown_table
from rlrepro.evidence.verdicts import UNTESTED, Judgement, MachineRun, articles, shown, with_quote

KIND = ("processor", "cores", "memory", "GPU", "device")  # traits in which machines differ in kind
OUTCOME_STYLE = {  # color, and a mark for those who can't tell the colors apart
    "supported": (figures.OURS, "✓"),
    "refuted": (figures.BUGGY, "✗"),
    "partly": (figures.UPSTREAM, "~"),
    UNTESTED: ("#BBBBBB", "?"),
}
LEGEND = "✓ supported   ✗ refuted   ~ partly   ? not testable here   pale: by another run   black edge: runs disagree"
TILE_WIDTH, TILE_HEIGHT = 0.92, 0.86


def chapter_title(chapter: str) -> str:
    """A short name for a chapter: "3 slice sampler" for "03_slice_sampler"."""
    return f"{int(chapter[:2])} {chapter[3:].removesuffix('_oom').replace('_', ' ').replace('logp old', 'logp_old')}"


def machines_markdown(runs: Sequence[MachineRun]) -> str:
    """A table of the machines, with a column for each run."""
    traits = [run.traits for run in runs]
    return markdown_table(
        ["", *(run.label for run in runs)], [[name, *(row[name] for row in traits)] for name in traits[0]]
    )


def judgements_markdown(judgements: Sequence[Judgement]) -> str:
    """A table of the claims, each with a link to the section that measured it, below the names of their articles.

    Verdict, figure and reason are those of the first run that could test the claim; the last column has the
    verdicts of the other runs.
    """
    rows = []
    for judgement in judgements:
        claim, (label, verdict) = judgement.claim, judgement.first
        source = "" if label == next(iter(judgement.verdicts)) else f" (by {label})"
        other_verdicts = [f"{name}: {v.outcome}, {v.figure}" for name, v in judgement.tested.items() if name != label]
        rows.append(
            (
                f"[{claim.id}]({claim.chapter}.ipynb#{claim.section.replace(' ', '-')})",
                with_quote(claim.sentence, claim.quote),
                shown(verdict.outcome, verdict.firm) + source,
                f"{verdict.figure}; *{verdict.why}*",
                "; ".join(other_verdicts) or "–",
            )
        )
    names = articles(str(judgement.claim.article or "") for judgement in judgements)
    return names + markdown_table(("", "claim", "verdict", "result, and why", "other machines"), rows)


def disagreements_markdown(judgements: Sequence[Judgement], runs: Sequence[MachineRun]) -> str:
    """How many claims the runs agree on, and a line for each claim on which they don't, with a possible reason."""
    if len(runs) < 2:
        return "There is only one run, so there is nothing to compare it with."
    lines = []
    for judgement in judgements:
        if not judgement.agreed:
            verdicts = "; ".join(f"{label}: {v.outcome} ({v.figure})" for label, v in judgement.tested.items())
            lines.append(
                f"- **{judgement.claim.id}**, {judgement.claim.sentence}. {verdicts}. "
                f"{differences(runs, judgement.tested)}."
            )
    compared = [judgement for judgement in judgements if len(judgement.tested) > 1]
    kinds = {run.label: tuple(run.traits[name] for name in KIND) for run in runs}
    different = [judgement for judgement in compared if len({kinds[label] for label in judgement.tested}) > 1]
    summary = (
        f"Of {len(judgements)} claims, {len(compared)} were tested by more than one run; "
        f"the runs agree on {len(compared) - len(lines)} of them. "
    )
    if different:
        agreed = sum(judgement.agreed for judgement in different)
        summary += f"{len(different)} were tested by different kinds of machine, which agree on {agreed}."
    elif compared:
        summary += (
            "But all runs come from the same kind of machine, so this shows only that a run can be repeated, not that "
            "other machines agree."
        )
    return "\n".join([summary, "", *lines])


def differences(runs: Sequence[MachineRun], labels: Collection[str]) -> str:
    """The traits in which the runs with these labels differ, on one line."""
    traits = [run.traits for run in runs if run.label in labels]
    values = {name: list(dict.fromkeys(row[name] for row in traits)) for name in traits[0] if name != "measured"}
    different = [f"{name} {' / '.join(distinct)}" for name, distinct in values.items() if len(distinct) > 1]
    if not different:
        return "The runs differ only by chance: the machine, the profile and the versions are the same"
    return f"The runs differ in: {'; '.join(different)}"


def plot_verdicts(judgements: Sequence[Judgement], label: str):
    """A tile for each claim, colored by its verdict in the run with this label.

    A pale tile shows the verdict of another run, where this one could not test the claim. A black edge marks claims on
    which runs disagree.
    """
    by_chapter = {}
    for judgement in judgements:
        by_chapter.setdefault(judgement.claim.chapter, []).append(judgement)
    counts = Counter(judgement.first[1].outcome for judgement in judgements)
    summary = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOME_STYLE if counts[outcome])
    figure, axes = figures.new_figure(f"{len(judgements)} claims: {summary}", height=0.7 * len(by_chapter) + 1)
    for row, chapter in enumerate(by_chapter.values()):
        for column, judgement in enumerate(chapter):
            _draw_tile(axes, column, row, judgement, label)
    axes.set_yticks([row + TILE_HEIGHT / 2 for row in range(len(by_chapter))], list(map(chapter_title, by_chapter)))
    axes.tick_params(length=0)
    axes.set_xticks([])
    axes.set_xlim(0, max(map(len, by_chapter.values())))
    axes.set_ylim(len(by_chapter), 0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(LEGEND, fontsize=8)
    figure.described = f"One tile for each claim, a row for each chapter. {summary.capitalize()}. " + "; ".join(
        f"{judgement.claim.id} {judgement.first[1].outcome}" for judgement in judgements
    )
    return figure


def _draw_tile(axes, column: int, row: int, judgement: Judgement, label: str) -> None:
    color, mark = OUTCOME_STYLE[judgement.first[1].outcome]
    tested_here = judgement.verdicts[label].outcome != UNTESTED or not judgement.tested
    edge = {} if judgement.agreed else {"edgecolor": "black", "linewidth": 2.5}
    face = color if tested_here else (color, 0.25)
    axes.add_patch(Rectangle((column, row), TILE_WIDTH, TILE_HEIGHT, facecolor=face, **edge))
    text = {"ha": "center", "va": "center", "color": "white" if tested_here else color}
    axes.text(column + 0.46, row + 0.31, mark, fontsize=14, fontweight="bold", **text)
    axes.text(column + 0.46, row + 0.67, judgement.claim.id, fontsize=8.5, **text)
