"""TorchRL's SliceSampler: each sample reads every stored transition.

Upstream: pytorch/rl#2669, made faster by constant factors in #2671 and #2672, first released in 0.7.0. `workloads` has
the functions that run under a release, on `buffers`; `measure` has the loops, `claims` judges the article, and `plots`
and `tables` show records.
"""

from dataclasses import dataclass

import lazy_loader

CHAPTER = "03_slice_sampler"
BUGGY, FIXED, NEWEST = "0.6.0", "0.7.0", "0.14.1"
RELEASES = ("0.6.0", "0.7.0", "0.8.1", "0.9.2", "0.10.1", "0.11.1", "0.12.0", "0.13.3", "0.14.1")
MILLION = 1_000_000
ID_BYTES = {"bool": 1, "int32": 4, "int64": 8}  # all sections but one use the last


@dataclass(frozen=True)
class Settings:
    """How much one profile measures. Sizes are numbers of transitions."""

    stored: tuple[int, ...]  # for growth with what is stored, in a buffer of `capacity`; `full` has the article's sizes
    capacity: int
    capacities: tuple[int, ...]  # for growth with the capacity, with the first of `stored` transitions in each
    online_stored: tuple[int, ...]  # for the loop that writes, then samples
    moved_stored: int  # for bytes read and written
    releases_stored: int  # in each of three processes at once, for ratios of releases
    repeats: int
    writes: int  # of the online loop
    timeline: tuple[str, ...]  # releases
    timeline_stored: int


SETTINGS = {
    "tiny": Settings(
        stored=(100_000, 500_000, 2 * MILLION),
        capacity=100 * MILLION,
        capacities=(120_000, 1 * MILLION, 10 * MILLION, 100 * MILLION),
        online_stored=(200_000, 2 * MILLION),
        moved_stored=800_000,
        releases_stored=800_000,
        repeats=3,
        writes=5,
        timeline=(BUGGY, FIXED, NEWEST),
        timeline_stored=400_000,
    ),
    "smoke": Settings(
        stored=(1 * MILLION, 2 * MILLION, 5 * MILLION, 20 * MILLION),
        capacity=600 * MILLION,
        capacities=(1_200_000, 8 * MILLION, 60 * MILLION, 600 * MILLION),
        online_stored=(1 * MILLION, 5 * MILLION, 20 * MILLION),
        moved_stored=5 * MILLION,
        releases_stored=10 * MILLION,
        repeats=5,
        writes=15,
        timeline=(BUGGY, FIXED, NEWEST),
        timeline_stored=2 * MILLION,
    ),
    "full": Settings(
        stored=(5 * MILLION, 20 * MILLION, 80 * MILLION, 346 * MILLION),
        capacity=600 * MILLION,
        capacities=(6 * MILLION, 30 * MILLION, 130 * MILLION, 600 * MILLION),
        online_stored=(1 * MILLION, 20 * MILLION, 100 * MILLION, 346 * MILLION),
        moved_stored=20 * MILLION,
        releases_stored=80 * MILLION,
        repeats=7,
        writes=25,
        timeline=RELEASES,
        timeline_stored=5 * MILLION,
    ),
}

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["buffers", "measure", "plots", "tables", "workloads"],
    submod_attrs={"claims": ["CLAIMS"], "records": ["RECORDS"]},
)
