"""What each problem that the doctor finds costs, from the reference records, as a file that ships with the doctor.

`python -m rlrepro.course.rule_costs` rewrites it. The doctor itself reads neither records nor verdicts.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from rlrepro.cases import all_claims
from rlrepro.doctor.finding import all_rules
from rlrepro.doctor.report import MEASURED
from rlrepro.evidence.records import Record
from rlrepro.evidence.verdicts import Judgement, MachineRun, judge, load_runs
from rlrepro.lab.units import format_value

RESULTS = Path(__file__).parents[2] / "results"


def measured(runs: Sequence[MachineRun] | None = None) -> dict[str, list[str]]:
    """Lines by rule code, from these runs or the reference records: claims with their verdicts, then measured ratios of
    the slow code to its fix."""
    runs = runs or load_runs(RESULTS / "none", RESULTS)
    judgements = {judgement.claim.id: judgement for judgement in judge(all_claims(), runs)}
    costs = [record for run in runs for record in run.records.where("own_code.cost")]
    lines = {
        code: [
            *(_claim_line(judgements[claim_id]) for claim_id in rule.claims),
            *(_cost_line(record) for record in costs if record.setting["rule"] == code),
        ]
        for code, rule in all_rules().items()
    }
    return {code: rule_lines for code, rule_lines in lines.items() if rule_lines}


def _claim_line(judgement: Judgement) -> str:
    _, verdict = judgement.first
    return f"claim {judgement.claim.id}, “{judgement.claim.sentence}”: {verdict.outcome}, {verdict.figure}"


def _cost_line(record: Record) -> str:
    low, high = (format_value(bound, "ratio") for bound in record.spread or (record.value, record.value))
    spread = f" ({low} to {high})" if low != high else ""
    return f"{record.setting['what']}: {format_value(record.value, 'ratio')}{spread} on {record.machine.name}"


def main() -> None:
    MEASURED.write_text(json.dumps(measured(), indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
