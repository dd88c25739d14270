"""What the prose of the book asks for by {{ name }}: verdicts and counts of the run that the book shows."""

from pathlib import Path

from rlrepro.agreement import Judged, gather, judge_all, plot_verdicts
from rlrepro.site.api import api


def numbers(run: Path, results: Path, figures: Path) -> dict:
    """Names and functions for the prose; the summary picture is written to the folder `figures`."""
    evidence = gather(run, results)
    judged = judge_all(evidence)
    mine = evidence[0]
    picture = plot_verdicts(judged, mine.label)
    figures.mkdir(parents=True, exist_ok=True)
    (figures / "verdicts.png").write_bytes(picture.png())
    by_id = {each.claim.id: each for each in judged}
    return {
        "claims": len(judged),
        "count": lambda outcome: sum(each.verdicts[mine.label].outcome == outcome for each in judged),
        "verdict": lambda claim_id: _sentence(by_id[claim_id]),
        "machine": "{processor}, {cores} cores, {memory}, GPU: {GPU}, {measured}, profile {profile}".format(
            **mine.traits
        ),
        "picture_alt": picture.alt(),
        "api": api,
    }


def _sentence(judged: Judged) -> str:
    """A claim's verdict with its figure and reason, by the first run that could test it."""
    label, verdict = next(iter((judged.tested or judged.verdicts).items()))
    by = "" if label == next(iter(judged.verdicts)) else f" (by the records of {label})"
    claim = judged.claim
    link = f"notebooks/{claim.chapter}.ipynb#{claim.section.replace(' ', '-')}"
    return f"“{claim.sentence}”: [**{verdict.outcome}**]({link}){by}: {verdict.figure}; {verdict.why}."
