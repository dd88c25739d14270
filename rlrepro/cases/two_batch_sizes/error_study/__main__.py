"""Measure the random updates that the file of records lacks; `--help` shows how many, and the file."""

import argparse
import warnings
from pathlib import Path

import torch

from rlrepro.cases.two_batch_sizes import RECORDS
from rlrepro.cases.two_batch_sizes.error_study.own_updates import STEPS
from rlrepro.cases.two_batch_sizes.error_study.summary import FOR_CARDS, NAME, random_updates
from rlrepro.cases.two_batch_sizes.error_study.updates import RandomUpdate, random_update
from rlrepro.evidence.records import RecordBook, Records, read_records
from rlrepro.lab import resolve_device, this_machine

RESULTS = Path(__file__).parents[4] / "results"
UPDATES = 800


def measure(book: RecordBook, update: RandomUpdate) -> None:
    """Plan the update, run it on the CPU, and add a record for each of its stages."""
    planned, peaks = update.plan(), update.run()
    for stage, (tensors, allocated) in peaks.items():
        with_margin = planned.needed[stage] / allocated
        book.add("random_plan", planned.stages[stage] / tensors, with_margin=with_margin, **_names(update, stage))


def measure_on_card(book: RecordBook, update: RandomUpdate) -> None:
    """Run the update on the GPU, and add a record for each of its stages."""
    for stage, (allocated, reserved) in update.run().items():
        book.add("random_update_on_card", allocated, reserved=reserved, **_names(update, stage))


def plan_for_card(book: RecordBook, update: RandomUpdate, measured: Records) -> None:
    """Plan the update for a GPU, with this machine's if it has one. Adds a record for each `measured` stage."""
    planned = update.plan()
    for record in measured:
        stage, reserved = record.setting["stage"], None
        if update.algorithm in STEPS:
            reserved = planned.reserved().reserved_bytes / record.setting["reserved"]
        ratio, card = planned.needed[stage] / record.value, record.machine.gpu
        book.add("random_plan_for_card", ratio, card=card, reserved=reserved, **_names(update, stage))


def _names(update: RandomUpdate, stage: str) -> dict:
    names = {"algorithm": update.algorithm, "network": update.network, "dtype": update.dtype}
    return {"number": update.number, **names, "stage": stage}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the number of the first update; %(default)s by default")
    parser.add_argument("--updates", type=int, default=UPDATES, help="%(default)s by default")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="%(default)s by default")
    parser.add_argument(
        "--for-cards",
        action="store_true",
        help="plan the updates that were measured on a GPU; on this machine's GPU, if it has one",
    )
    parser.add_argument("--out", type=Path, help="by default, the file of this machine's records")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # allocations are counted in the calling thread
    out = arguments.out or RESULTS / this_machine().name / (FOR_CARDS if arguments.for_cards else NAME)
    device = resolve_device("auto").type if arguments.for_cards else arguments.device
    book = RecordBook(out, case="two_batch_sizes", profile="full", device=device, seed=0, quantities=RECORDS)
    if out.exists():
        book.records.extend(read_records(out))
    done = {record.setting["number"] for record in book.records}
    on_cards = random_updates(RESULTS) if arguments.for_cards else Records()
    for number in range(arguments.first, arguments.first + arguments.updates):
        if number in done:
            continue
        if arguments.for_cards:
            if measured := on_cards.where("two_batch_sizes.random_update_on_card", number=number):
                plan_for_card(book, random_update(number, "cuda"), measured)
        elif device == "cuda":
            measure_on_card(book, random_update(number, device))
        else:
            measure(book, random_update(number))


if __name__ == "__main__":
    main()
