"""What the reference records say that each of the doctor's problems costs, as a file that the doctor ships with.

`python -m rlrepro.course.rule_costs` writes it anew. The doctor itself needs no records, and nothing that reads them.
"""

import json
from pathlib import Path

from rlrepro.cases import all_claims
from rlrepro.doctor.finding import all_rules
from rlrepro.doctor.report import MEASURED
from rlrepro.evidence.compare_runs import best, gather, judge_all
from rlrepro.evidence.records import Record
from rlrepro.lab.units import format_value

RESULTS = Path(__file__).parents[2] / "results"


def measured(results: Path = RESULTS) -> dict[str, list[str]]:
    """Lines by the code of a rule: claims with their verdict, then ratios of the slow way to its fix."""
    evidence = gather(results / "none", results)
    verdicts = {each.claim.id: best(each)[1] for each in judge_all(evidence, all_claims())}
    sentences = {claim.id: claim.sentence for claim in all_claims()}
    costs = [record for each in evidence for record in each.records.where("own_project.cost")]
    lines = {
        code: [
            *(
                f"claim {name}, “{sentences[name]}”: {verdicts[name].outcome}, {verdicts[name].figure}"
                for name in rule.claims
            ),
            *(_as_line(record) for record in costs if record.setting["rule"] == code),
        ]
        for code, rule in all_rules().items()
    }
    return {code: each for code, each in lines.items() if each}


def _as_line(record: Record) -> str:
    low, high = (format_value(each, "ratio") for each in record.spread or (record.value, record.value))
    spread = f" ({low} to {high})" if low != high else ""
    return f"{record.setting['what']}: {format_value(record.value, 'ratio')} times{spread} on {record.machine.name}"


def main() -> None:
    MEASURED.write_text(json.dumps(measured(), indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
