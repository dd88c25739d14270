"""The time of one critic's update and evaluation: the plain way, FactoredQ, and the matrix products alone."""

from rlrepro.cases.common.bench import Bench
from rlrepro.cases.large_actions import FEATURES, fixed_workloads
from rlrepro.cases.large_actions.fixed_workloads import UPDATES, VALUES
from rlrepro.lab import compare, peak_memory


def times(bench: Bench) -> None:
    """The plain way against FactoredQ where both fit, and FactoredQ against its matrix products alone."""
    for count, rows in bench.settings.timed_sizes:
        for precision in fixed_workloads.precisions(bench.device):
            for workload, factories in (("update", UPDATES), ("evaluation", VALUES)):
                with fixed_workloads.precision(precision):
                    _add_times(bench, factories, count, rows, what=workload, precision=precision)


def _add_times(bench: Bench, factories: dict, count: int, rows: int, **setting) -> None:
    size = count, FEATURES, rows, bench.device
    products = fixed_workloads.matrix_products(count, rows, bench.device, backward=setting["what"] == "update")
    comparisons = {"floor_ratio": (factories["factored"](*size), products)}
    if _plain_fits(bench, count, rows):
        comparisons["time_ratio"] = factories["plain"](*size), factories["factored"](*size)
    for name, (slow, fast) in comparisons.items():
        comparison = compare(slow, fast, repeats=bench.settings.repeats, device=bench.device)
        bench.add_ratio(name, comparison, actions=count, rows=rows, **setting)


def limits(bench: Bench) -> None:
    """FactoredQ's update at several memory limits: its peak, and how many times longer the plain update takes. At the
    largest size at which the plain one fits, if there is one."""
    fitting = [size for size in bench.settings.timed_sizes if _plain_fits(bench, *size)]
    if not fitting:
        return
    count, rows = max(fitting)
    size = count, FEATURES, rows, bench.device
    plain = UPDATES["plain"](*size)
    for gib in bench.settings.limits_gib:
        setting = {"memory_limit": int(gib * 2**30), "actions": count, "rows": rows}
        update = UPDATES["factored"](*size, memory_limit=setting["memory_limit"])
        bench.add("limit_peak", peak_memory(update, device=bench.device).peak_bytes, **setting)
        comparison = compare(plain, update, repeats=bench.settings.repeats, device=bench.device)
        bench.add_ratio("limit_ratio", comparison, **setting)


def _plain_fits(bench: Bench, count: int, rows: int) -> bool:
    return bool(bench.records.where("large_actions.critic_peak", way="plain", actions=count, rows=rows))
