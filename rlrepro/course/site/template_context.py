"""What the book's prose can use as {{ name }}: verdicts and counts of the run that the book shows."""

from pathlib import Path

from rlrepro.cases import all_claims
from rlrepro.cases.two_batch_sizes.error_study.summary import on_cards, sentence
from rlrepro.course.exercises.effort import effort_table
from rlrepro.course.reports import render, reports
from rlrepro.course.site import front_page, gpu_figures, reference_pages
from rlrepro.course.site.api import api
from rlrepro.doctor import field
from rlrepro.doctor.triage import NOT_OURS
from rlrepro.evidence.compatibility import table
from rlrepro.evidence.records import Records, read_records
from rlrepro.evidence.verdicts import Judgement, judge, load_runs, shown


def template_context(run: Path, results: Path, repository: str) -> dict:
    """Names and functions for the prose."""
    runs = load_runs(run, results)
    judgements = judge(all_claims(), runs)
    first = runs[0]
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
        "gpus": gpu_figures.gpus(runs),
        "on_gpu": gpu_figures.on_gpu(runs),
        "tiles": front_page.tiles(judgements, first.label),
        "cards": front_page.cards(runs),
        "triage_data": front_page.triage_data(),
        "not_ours": NOT_OURS,
        "help_of": reference_pages.help_of,
        "rules": reference_pages.rules(runs),
        "times": reference_pages.times(run),
        "sizes": reference_pages.sizes(),
        "bibtex": reference_pages.bibtex(first.records[-1].taken_at.year),
        "api": api,
        "effort_table": effort_table(),
        "field": field.table(),
        "how_wrong_plans_are": ". ".join(filter(None, (sentence(results), on_cards(results)))),
        "open_reports": "\n".join(render(report, results, level=2) for report in reports().values()),
        "what_works_with_what": table.markdown(_compatibility(results)),
    }


def _compatibility(results: Path) -> Records:
    return Records(record for path in sorted(results.glob("*/compatibility.jsonl")) for record in read_records(path))


def _sentence(judgement: Judgement) -> str:
    """A claim's verdict with the reason and the figure behind it, from the first run that could test it."""
    claim, (label, verdict) = judgement.claim, judgement.first
    source = "" if label == next(iter(judgement.verdicts)) else f", by the records of {label}"
    link = f"notebooks/{claim.chapter}.ipynb#{claim.section.replace(' ', '-')}"
    reason = verdict.why[:1].upper() + verdict.why[1:]
    return f"“{claim.sentence}”: [{shown(verdict.outcome, verdict.firm)}]({link}){source}. {reason} ({verdict.figure})."
