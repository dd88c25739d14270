"""Measure the random updates that the file of records lacks; `--help` shows how many, and the file."""

import argparse
import warnings
from pathlib import Path

import torch

from rlrepro.cases.two_batch_sizes import RECORDS
from rlrepro.cases.two_batch_sizes.error_study.own_updates import STEPS
from rlrepro.cases.two_batch_sizes.error_study.summary import NAME
from rlrepro.cases.two_batch_sizes.error_study.updates import RandomUpdate, random_update
from rlrepro.evidence.records import RecordBook, read_records
from rlrepro.lab import this_machine

RESULTS = Path(__file__).parents[4] / "results"
UPDATES = 500


def measure(book: RecordBook, update: RandomUpdate) -> None:
    """Plan the update, run it, and add a record for each of its stages."""
    planned, peaks = update.plan(), update.run()
    names = {"algorithm": update.algorithm, "network": update.network, "dtype": update.dtype}
    for stage, measured in peaks.items():
        setting = {"number": update.number, **names, "stage": stage}
        needed = planned.needed[stage]
        if update.device == "cpu":
            tensors, allocated = measured
            book.add("random_plan", planned.stages[stage] / tensors, with_margin=needed / allocated, **setting)
        else:
            allocated, reserved = measured
            book.add("random_plan_on_card", needed / allocated, allocated=allocated, reserved=reserved, **setting)
            if update.algorithm in STEPS:
                book.add("random_reserved", planned.reserved().reserved_bytes / reserved, **setting)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the number of the first update; %(default)s by default")
    parser.add_argument("--updates", type=int, default=UPDATES, help="%(default)s by default")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="%(default)s by default")
    parser.add_argument("--out", type=Path, default=RESULTS / this_machine().name / NAME, help="%(default)s by default")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # allocations are counted in the calling thread
    book = RecordBook(
        arguments.out, case="two_batch_sizes", profile="full", device=arguments.device, seed=0, quantities=RECORDS
    )
    if arguments.out.exists():
        book.records.extend(read_records(arguments.out))
    measured = {record.setting["number"] for record in book.records}
    for number in range(arguments.first, arguments.first + arguments.updates):
        if number not in measured:
            measure(book, random_update(number, arguments.device))


if __name__ == "__main__":
    main()
