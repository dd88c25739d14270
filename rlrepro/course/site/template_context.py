"""What the book's prose can use as {{ name }}: verdicts and counts of the run that the book shows."""

import json
from pathlib import Path

from rlrepro.cases import all_claims
from rlrepro.course.reports import render, reports
from rlrepro.course.site.api import api
from rlrepro.doctor import field
from rlrepro.evidence.compare_runs import plot_verdicts
from rlrepro.evidence.compatibility import table
from rlrepro.evidence.records import Records, read_records
from rlrepro.evidence.verdicts import Judgement, MachineRun, judge, load_runs, shown


def template_context(run: Path, results: Path, figures: Path, repository: str) -> dict:
    """Names and functions for the prose. The summary picture is written to the folder `figures`."""
    runs = load_runs(run, results)
    judgements = judge(all_claims(), runs)
    first = runs[0]
    picture = plot_verdicts(judgements, first.label)
    figures.mkdir(parents=True, exist_ok=True)
    (figures / "verdicts.png").write_bytes(picture.png())
    by_id = {judgement.claim.id: judgement for judgement in judgements}
    return {
        "claims": len(judgements),
        "count": lambda outcome: sum(judgement.first[1].outcome == outcome for judgement in judgements),
        "by_others": sum(judgement.first[0] != first.label for judgement in judgements),
        "repository": repository,
        "verdict": lambda claim_id: _sentence(by_id[claim_id]),
        "machine": "{processor}, {cores} cores, {memory}, GPU: {GPU}, {measured}, profile {profile}".format(
            **first.traits
        ),
        "gpus": _gpus(runs),
        "picture_alt": json.dumps(picture.alt(), ensure_ascii=False),
        "api": api,
        "field": field.table(),
        "open_reports": "\n".join(render(each, results, level=2) for each in reports().values()),
        "what_works_with_what": table.markdown(_compatibility(results)),
    }


def _compatibility(results: Path) -> Records:
    return Records(record for path in sorted(results.glob("*/compatibility.jsonl")) for record in read_records(path))


def _gpus(runs: list[MachineRun]) -> str:
    """The GPUs that were used."""
    gpus = dict.fromkeys(run.traits["GPU"] for run in runs if run.traits["device"].startswith("cuda"))
    return ", ".join(gpus) or "none yet, so that what this page says of one is not measured; yours would be the first"


def _sentence(judgement: Judgement) -> str:
    """A claim's verdict with the reason and the figure behind it, by the first run that could test it."""
    claim, (label, verdict) = judgement.claim, judgement.first
    source = "" if label == next(iter(judgement.verdicts)) else f", by the records of {label}"
    link = f"notebooks/{claim.chapter}.ipynb#{claim.section.replace(' ', '-')}"
    reason = verdict.why[:1].upper() + verdict.why[1:]
    return f"“{claim.sentence}”: [{shown(verdict.outcome, verdict.firm)}]({link}){source}. {reason} ({verdict.figure})."
