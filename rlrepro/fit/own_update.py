"""plan_update(make, step, ...): what an update that you wrote yourself needs on a card."""

import gc
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
import torch

from rlrepro.fit.card import CardCount, CardDevice, like_ordinary_tensors, one_card
from rlrepro.fit.dry_run import DryRun
from rlrepro.fit.host_memory import LARGE, HostArrays
from rlrepro.fit.marks import naming_stages, note
from rlrepro.fit.measured_alone import MeasuredAlone
from rlrepro.fit.memory_plan import CannotPlan, Plan, check_size, limit_bytes
from rlrepro.fit.reserved import AllocationTrace
from rlrepro.fit.search import largest_multiple
from rlrepro.fit.step_sizes import accepted, check_sizes, default_sizes
from rlrepro.fit.update_planner import RESERVE
from rlrepro.fit.user_code import GrowingLines, cannot_plan
from rlrepro.fit.zero_memory_tensors import ONE_AT_A_TIME, fake_tensors_to_numpy
from rlrepro.lab.garbage_collector import paused
from rlrepro.lab.machine import resolve_device

UPDATE = "update"  # the stage of what is outside every `with stage(...)`
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

    Stages are what you name by `with rlrepro.fit.stage("learn"):`; what is outside of them is "update", and what
    `make` needs while it runs is "make". `plan.largest("batch_size", gib=8)` searches any of the sizes.

    Numbers read from a tensor are ones: `with rlrepro.fit.reads(value):` chooses another branch. torch.compile is left
    out, so modules are planned as they run without it. Autocast casts what it casts on a CPU, and recurrent layers and
    attention keep what they keep there.

    Args:
        device: "cuda", where what `make` and `step` put on "cuda" is counted, apart from what stays in host memory; or
            "cpu", where every tensor is counted
        device_memory_gib: of the card, for `plan.fits()`
        sizes: arguments of `step`, and of `make` where it takes them; those that are whole numbers by default are
            sizes too

    Raises CannotPlan, with the line of your code, for sizes that are not positive or that neither function takes, code
    that needs the values of tensors to go on, an update that leaves more memory in use each time, and one that uses
    nothing of the device.
    """
    for name, function in {"make": make, "step": step}.items():
        if not callable(function):
            raise CannotPlan(f"{name} must be a function; found {function!r}")
    return OwnUpdatePlanner(make, step, device).plan(
        device_memory_gib=device_memory_gib, **{**default_sizes(step), **sizes}
    )


class OwnUpdatePlanner:
    """Plans one update at any sizes. What operators need is measured once, for all of them."""

    def __init__(self, make: Callable, step: Callable, device: str, updates: int = UPDATES, most=None):
        """`most` maps a size to a function of all sizes: its value from which on a larger one changes nothing."""
        self._device = str(device).partition(":")[0]
        if self._device not in ("cuda", "cpu"):
            raise CannotPlan(f"device must be cuda or cpu; found {device!r}")
        self._make, self._step, self._updates, self._most = make, step, updates, most or {}
        self._operators = MeasuredAlone(resolve_device("cpu" if self._device == "cpu" else "auto"))

    def plan(self, device_memory_gib: float | None = None, **sizes: int) -> Plan:
        """Run the update with these sizes."""
        for name, size in sizes.items():
            check_size(name, size)
        if device_memory_gib is not None:
            limit_bytes(device_memory_gib)
        of_make, of_step = check_sizes(self._make, sizes), check_sizes(self._step, sizes, "state")
        if unknown := sizes.keys() - of_make.keys() - of_step.keys():
            raise CannotPlan(
                f"step has no size {', '.join(sorted(unknown))}; its sizes are {', '.join(of_step) or 'none'}"
            )
        with ONE_AT_A_TIME:
            run = OwnUpdateRun(self._device, self._operators)
            with run:
                try:
                    run.updates(
                        lambda: self._make(**of_make), lambda state: self._step(state, **of_step), self._updates
                    )
                except CannotPlan:
                    raise
                except Exception as error:
                    raise cannot_plan(error, "the update") from error
        tensors = {name: int(peaks[0]) for name, peaks in run.stages.items()}
        margins = {name: int(peaks[1] * (1 + RESERVE)) - tensors[name] for name, peaks in run.stages.items()}
        return Plan(sizes, device_memory_gib, tensors, margins, self, run.host_stages, run.notes())

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
        most = self._most[size](plan.sizes) if size in self._most else None

        def is_hidden(low, high):
            few, many = (self.trace(plan.at(**{size: value})).events for value in (low, high))
            return few != many and len(few) >= len(many)  # more events: it is a number of steps, which takes time

        def peak(value):
            return plan.at(**{size: value}).peak_bytes

        return largest_multiple(peak, limit, multiple_of, plan.sizes[size], most, is_hidden)


class OwnUpdateRun:
    """A dry run of code that chooses its devices itself. `stages` maps each stage to its largest peaks, and
    `host_stages` to the largest peak of arrays and of tensors outside the card."""

    def __init__(self, device: str, operators):
        self.stages, self.host_stages, self._notes, self._device = {}, {}, {}, device
        count = CardCount() if device == "cuda" else None
        self.run = DryRun(copied_to_card=device == "cuda", operators=operators, count=count)
        self.arrays = HostArrays()
        self._hosts = [self.arrays, *([count.host] if count else [])]

    def __enter__(self):
        self._stack = ExitStack()
        contexts = [
            self.run,
            fake_tensors_to_numpy(least=LARGE),
            like_ordinary_tensors(),
            self.arrays,
            self._eager(),
            paused(),  # or what cycles keep alive would depend on when collections come
            naming_stages(self.stage, self._notes),
        ]
        if self._device == "cuda":
            contexts += [one_card(self.run.count), CardDevice(self.run.count)]
        for context in contexts:
            self._stack.enter_context(context)
        return self

    def __exit__(self, *raised):
        self._stack.close()

    def updates(self, make: Callable, step: Callable, count: int) -> None:
        """Build the state and update it `count` times, and once more if memory in use still grows."""
        with self.stage("make"):
            state = make()
        live = [self._update(step, state) for _ in range(count)]
        if count > 1 and live[-1] > live[-2]:
            live.append(self._update(step, state))
        if count > 1 and live[-1] > live[-2]:
            with GrowingLines(self.run.count) as lines:
                self._update(step, state)
            raise CannotPlan(f"each update leaves {live[-1] - live[-2]:,} bytes more in use: {lines.largest()}")
        if not max(peaks[0] for peaks in self.stages.values()):
            raise CannotPlan(
                f"nothing of the update is on {self._device}, which is planned for: move the networks and the data to "
                f"it, or plan for device='{'cpu' if self._device == 'cuda' else 'cuda'}'"
            )

    def _update(self, step, state) -> int:
        with self.stage(UPDATE):
            step(state)
        gc.collect(0)
        return self.run.count.live_bytes

    @contextmanager
    def stage(self, name: str):
        """Counts the peak while this runs for the stage `name`, and not for the one around it."""
        earlier, of_hosts = self.run.peaks(), [host.peak_bytes for host in self._hosts]
        self._restart()
        try:
            yield
        finally:
            self.stages[name] = np.maximum(self.stages.get(name, 0), self.run.peaks())
            host_bytes = sum(host.peak_bytes for host in self._hosts)
            self.host_stages[name] = max(self.host_stages.get(name, 0), host_bytes)
            self._restart(earlier, of_hosts)

    def _restart(self, peaks=(0, 0), of_hosts=(0, 0)) -> None:
        self.run.restart(peaks)
        for host, peak in zip(self._hosts, of_hosts, strict=False):
            host.peak_bytes = max(host.live_bytes, peak)

    def notes(self) -> tuple[str, ...]:
        """What was planned otherwise than it will run."""
        return tuple(self._notes)

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
