"""What the prose of the book asks for by {{ name }}: verdicts and counts of the run that the book shows."""

import json
from pathlib import Path

from rlrepro.cases import all_claims
from rlrepro.course.site.api import api
from rlrepro.doctor import field
from rlrepro.evidence.compare_runs import plot_verdicts
from rlrepro.evidence.compatibility import table
from rlrepro.evidence.records import Records, read_records
from rlrepro.evidence.verdicts import Judgement, judge, load_runs


def numbers(run: Path, results: Path, figures: Path, repository: str) -> dict:
    """Names and functions for the prose; the summary picture is written to the folder `figures`."""
    evidence = gather(run, results)
    judged = judge_all(evidence, all_claims())
    mine = evidence[0]
    picture = plot_verdicts(judged, mine.label)
    figures.mkdir(parents=True, exist_ok=True)
    (figures / "verdicts.png").write_bytes(picture.png())
    by_id = {each.claim.id: each for each in judged}
    return {
        "claims": len(judged),
        "count": lambda outcome: sum(best(each)[1].outcome == outcome for each in judged),
        "by_others": sum(best(each)[0] != mine.label for each in judged),
        "repository": repository,
        "verdict": lambda claim_id: _sentence(by_id[claim_id]),
        "machine": "{processor}, {cores} cores, {memory}, GPU: {GPU}, {measured}, profile {profile}".format(
            **mine.traits
        ),
        "gpus": _gpus([each.traits for each in evidence]),
        "picture_alt": json.dumps(picture.alt(), ensure_ascii=False),
        "api": api,
        "field": field.table(),
        "what_works_with_what": table.markdown(_compatibility(results)),
    }


def _compatibility(results: Path) -> Records:
    return Records(each for path in sorted(results.glob("*/compatibility.jsonl")) for each in read_records(path))


def _gpus(traits: list[dict[str, str]]) -> str:
    """The GPUs that were measured on."""
    found = dict.fromkeys(each["GPU"] for each in traits if each["device"].startswith("cuda"))
    return ", ".join(found) or "none yet, so that what this page says of one is not measured; yours would be the first"


def _sentence(judged: Judged) -> str:
    """A claim's verdict with why and the figure behind it, by the first run that could test it."""
    label, verdict = best(judged)
    by = "" if label == next(iter(judged.verdicts)) else f", by the records of {label}"
    claim = judged.claim
    link = f"notebooks/{claim.chapter}.ipynb#{claim.section.replace(' ', '-')}"
    return f"“{claim.sentence}”: [**{verdict.outcome}**]({link}){by}. {upper(verdict.why)} ({verdict.figure})."


def upper(sentence: str) -> str:
    """With a capital at its beginning."""
    return sentence[:1].upper() + sentence[1:]
