"""plan_update(make, step, ...): what an update that you wrote yourself needs on a GPU."""

import gc
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
import torch

from rlrepro.fit.card import CardCount, CardDevice, like_ordinary_tensors, one_card
from rlrepro.fit.dry_run import DryRun
from rlrepro.fit.fused_layers import layers_fused
from rlrepro.fit.gpu_autocast import AutocastOfGPU
from rlrepro.fit.gpu_estimates import estimated
from rlrepro.fit.host_memory import LARGE, HostArrays
from rlrepro.fit.idle_optimizers import idle_optimizers_noted
from rlrepro.fit.lbfgs import lbfgs_to_its_end
from rlrepro.fit.marks import naming_stages, note
from rlrepro.fit.matrix_products import workspace_bytes
from rlrepro.fit.measured_alone import MeasuredAlone
from rlrepro.fit.memory_mapped import no_mapped_files
from rlrepro.fit.memory_plan import CannotPlan, Plan, check_size, limit_bytes
from rlrepro.fit.no_writes import nothing_saved
from rlrepro.fit.process_state import process_unchanged
from rlrepro.fit.reserved import AllocationTrace
from rlrepro.fit.search import largest_multiple
from rlrepro.fit.step_sizes import accepted, check_sizes, default_sizes
from rlrepro.fit.update_planner import RESERVE
from rlrepro.fit.user_code import GrowingLines, advice_on_growth, cannot_plan
from rlrepro.fit.zero_memory_tensors import ONE_AT_A_TIME, fake_tensors_to_numpy
from rlrepro.lab.garbage_collector import paused
from rlrepro.lab.machine import resolve_device
from rlrepro.lab.units import format_value

UPDATE = "update"  # the stage of code outside every `with stage(...)`
UPDATES = 2  # the first creates gradients and the optimizer's state


def plan_update(
    make: Callable[..., object],
    step: Callable[..., object],
    *,
    device: str = "cuda",
    device_memory_gib: float | None = None,
    **sizes: int,
) -> Plan:
    """Plan an update of any algorithm. `state = make()` builds networks, optimizers and whatever else an update needs,
    and `step(state, **sizes)` is one update. Both are run as they are, on tensors that take no memory.

    To name a stage, write `with rlrepro.fit.stage("learn"):`. Code outside of such blocks belongs to the stage
    "update", and all of `make` to the stage "make". `plan.largest("batch_size", gib=8)` searches any of the sizes.

    `.item()` returns 1 for a number, and `.numpy()` and `.tolist()` return zeros. Bools are true everywhere, so a mask
    selects all rows. `with rlrepro.fit.reads(value):` chooses another value for `.item()` and for bools. torch.compile
    does nothing, so modules are planned as they run without it. What operators need on a GPU is measured on yours or,
    without one, estimated: see the modules `gpu_*`.

    Args:
        device: "cuda" counts what `make` and `step` put on "cuda", apart from what stays in host memory; "cpu" counts
            every tensor
        device_memory_gib: memory of the GPU, for `plan.fits()`
        sizes: arguments of `step`, and of `make` if it takes them; arguments whose defaults are whole numbers are
            sizes too

    Raises CannotPlan, with the line of your code, for sizes that are not positive or that neither function takes, for
    code that depends on the values of tensors, for an update that leaves more memory in use each time, and for one that
    uses nothing on the device.
    """
    for name, function in {"make": make, "step": step}.items():
        if not callable(function):
            raise CannotPlan(f"{name} must be a function; found {function!r}")
    return OwnUpdatePlanner(make, step, device).plan(
        device_memory_gib=device_memory_gib, **{**default_sizes(step), **sizes}
    )


class OwnUpdatePlanner:
    """Plans one update at any sizes. What operators need is measured once, for all of them."""

    def __init__(self, make: Callable, step: Callable, device: str, updates: int = UPDATES, max_sizes=None):
        """`max_sizes` maps a size to a function of all sizes. It returns the value above which it has no effect."""
        self._device = str(device).partition(":")[0]
        if self._device not in ("cuda", "cpu"):
            raise CannotPlan(f"device must be cuda or cpu; found {device!r}")
        self._make, self._step, self._updates, self._max_sizes = make, step, updates, max_sizes or {}
        is_cpu = self._device == "cpu"
        self._operators = MeasuredAlone(resolve_device("cpu" if is_cpu else "auto"), casts=is_cpu)
        self._operators.workspace_bytes = workspace_bytes(self._device)
        self._operators.estimated = estimated(self._device, self._operators.device)

    def plan(self, device_memory_gib: float | None = None, **sizes: int) -> Plan:
        """Run the update with these sizes."""
        for name, size in sizes.items():
            check_size(name, size)
        if device_memory_gib is not None:
            limit_bytes(device_memory_gib)
        make_sizes, step_sizes = check_sizes(self._make, sizes), check_sizes(self._step, sizes, "state")
        if unknown := sizes.keys() - make_sizes.keys() - step_sizes.keys():
            known = ", ".join({**make_sizes, **step_sizes}) or "none"
            raise CannotPlan(f"make and step have no size {', '.join(sorted(unknown))}; their sizes are {known}")
        with ONE_AT_A_TIME:
            run = OwnUpdateRun(self._device, self._operators)
            with run:
                try:
                    run.updates(
                        lambda: self._make(**make_sizes), lambda state: self._step(state, **step_sizes), self._updates
                    )
                except CannotPlan:
                    raise
                except Exception as error:
                    raise cannot_plan(error, "the update", run.notes) from error
        tensors = {name: int(peaks[0]) for name, peaks in run.stages.items()}
        margins = {name: int(peaks[1] * (1 + RESERVE)) - tensors[name] for name, peaks in run.stages.items()}
        return Plan(sizes, device_memory_gib, tensors, margins, self, run.host_stages, tuple(run.notes))

    def trace(self, *plans: Plan) -> AllocationTrace:
        """The allocations and frees of two updates with the sizes of each plan, in this order."""
        trace = AllocationTrace()
        with ONE_AT_A_TIME:
            run = OwnUpdateRun(self._device, self._operators)
            run.run.record(trace)
            with run:
                state = self._make(**accepted(self._make, plans[0].sizes))
                for plan in plans:
                    for _ in range(self._updates):
                        self._step(state, **accepted(self._step, plan.sizes))
        return trace

    def largest(self, plan: Plan, size: str, limit: int, multiple_of: int = 1) -> int | None:
        """The largest value of that size within `limit` bytes, with the other sizes of `plan`."""
        if size not in plan.sizes:
            raise CannotPlan(f"size must be one of {', '.join(plan.sizes) or 'none'}; found {size!r}")
        check_size("multiple_of", multiple_of)
        max_size = self._max_sizes[size](plan.sizes) if size in self._max_sizes else None

        def is_hidden(low, high):
            small, large = (self.trace(plan.at(**{size: value})).events for value in (low, high))
            return small != large and len(small) >= len(large)  # more events: it is a number of steps, which takes time

        def peak(value):
            return plan.at(**{size: value}).peak_bytes

        return largest_multiple(peak, limit, multiple_of, plan.sizes[size], max_size, is_hidden)


class OwnUpdateRun:
    """A dry run of code that chooses its devices itself. `stages` maps each stage to its largest peaks, and
    `host_stages` to the largest peak of arrays and of tensors outside the GPU. `notes` has the notes as keys."""

    def __init__(self, device: str, operators):
        self.stages, self.host_stages, self.notes, self._device = {}, {}, {}, device
        count = CardCount() if device == "cuda" else None
        self.run = DryRun(copied_to_card=device == "cuda", operators=operators, count=count)
        self.arrays = HostArrays()
        self._hosts = [self.arrays, *([count.host] if count else [])]

    def __enter__(self):
        self._stack = ExitStack()
        contexts = [
            process_unchanged(),
            self.run,
            fake_tensors_to_numpy(min_size=LARGE),
            like_ordinary_tensors(),
            nothing_saved(),
            layers_fused(),
            lbfgs_to_its_end(),
            no_mapped_files([self.run.count, *self._hosts[1:]]),
            self.arrays,
            self._eager(),
            paused(),  # otherwise, what cycles keep alive would depend on when collections run
            naming_stages(self.stage, self.notes),
        ]
        if self._device == "cuda":
            contexts += [one_card(self.run.count), CardDevice(self.run.count), AutocastOfGPU()]
        for context in contexts:
            self._stack.enter_context(context)
        return self

    def __exit__(self, *raised):
        self._stack.close()

    def updates(self, make: Callable, step: Callable, count: int) -> None:
        """Build the state and update it `count` times, and once more if memory in use still grows."""
        with idle_optimizers_noted():
            with self.stage("make"):
                state = make()
            live = [self._update(step, state) for _ in range(count)]
        if count > 1 and live[-1] > live[-2]:
            live.append(self._update(step, state))
        if count > 1 and live[-1] > live[-2]:
            after_updates = []
            with GrowingLines(self.run.count) as lines:
                for _ in range(2):
                    self._update(step, state)
                    after_updates.append(lines.live_bytes())
            advice = advice_on_growth(*after_updates)
            raise CannotPlan(f"each update leaves {live[-1] - live[-2]:,} more bytes in use: {advice}")
        if not max(peaks[0] for peaks in self.stages.values()):
            raise CannotPlan(
                f"the update uses nothing on {self._device}, the planned device: move the networks and the data to it, "
                f"or plan for device='{'cpu' if self._device == 'cuda' else 'cuda'}'"
            )

    def _update(self, step, state) -> int:
        with self.stage(UPDATE):
            step(state)
        live_bytes = self.run.count.live_bytes
        gc.collect(0)
        if garbage := live_bytes - self.run.count.live_bytes:
            note(
                f"an update leaves {format_value(garbage, 'B')} in reference cycles, until Python's garbage collector "
                "runs: call gc.collect() after each update, as the plan assumes, or expect several times as much"
            )
        return self.run.count.live_bytes

    @contextmanager
    def stage(self, name: str):
        """Count the peak in this context for the stage `name`, and not for the surrounding one."""
        previous, host_peaks = self.run.peaks(), [host.peak_bytes for host in self._hosts]
        self._restart()
        try:
            yield
        finally:
            self.stages[name] = np.maximum(self.stages.get(name, 0), self.run.peaks())
            host_bytes = sum(host.peak_bytes for host in self._hosts)
            self.host_stages[name] = max(self.host_stages.get(name, 0), host_bytes)
            self._restart(previous, host_peaks)

    def _restart(self, peaks=(0, 0), host_peaks=(0, 0)) -> None:
        self.run.restart(peaks)
        for host, peak in zip(self._hosts, host_peaks, strict=False):
            host.peak_bytes = max(host.live_bytes, peak)

    @contextmanager
    def _eager(self):
        def compile_nothing(model=None, **options):
            note("torch.compile was left out: a compiled module may need less, or a little more")
            return (lambda function: function) if model is None else model

        torch.autocast_decrement_nesting()  # an update's own autocast is the outermost, which clears its cache
        try:
            with patch("torch.compile", compile_nothing), torch.compiler.set_stance("force_eager"):
                yield
        finally:
            torch.autocast_increment_nesting()
