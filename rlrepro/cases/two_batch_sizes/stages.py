"""Observes one update of PPO: its stages, their peaks (also next to a plan's), and live memory over time."""

import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rlrepro.cases.common.tianshou_ppo import is_version_2
from rlrepro.fit import Plan
from rlrepro.lab import VirtualCard


class StageObserver:
    """The stages of an update on a VirtualCard.

    `peaks` maps each stage to its peak of live bytes, in the order in which the stages ran; `spans` are (stage, start,
    end) in seconds; `forwards` are (stage, network, rows, with gradients or not), one for each forward pass of an
    observed network.
    """

    def __init__(self, card: VirtualCard, algorithm):
        self.card, self.current = card, None
        self.peaks, self.spans, self.forwards = {}, [], []
        self._created = time.perf_counter()
        self._wrap(algorithm, "_add_returns_and_advantages" if is_version_2() else "_compute_returns", after="logp_old")
        self._wrap(algorithm, "_update_with_batch" if is_version_2() else "learn", before="learn")

    def clock(self) -> float:
        """Seconds since this observer was created."""
        return time.perf_counter() - self._created

    def begin(self, stage: str) -> None:
        """End the current stage, if there is one, and begin this one."""
        self.end()
        self.current, self._start = stage, self.clock()
        self.card.restart_peak()

    def end(self) -> None:
        if self.current is not None:
            self.peaks[self.current] = self.card.peak_bytes
            self.spans.append((self.current, self._start, self.clock()))

    def observe(self, name: str, net: torch.nn.Module):
        """Record each forward pass of this network. Returns the hook's handle."""

        def record(_, args):
            self.forwards.append((self.current, name, len(args[0]), torch.is_grad_enabled()))

        return net.register_forward_pre_hook(record)

    def _wrap(self, algorithm, name, before=None, after=None):
        method = getattr(algorithm, name)

        def with_stages(*args, **kwargs):
            if before:
                self.begin(before)
            result = method(*args, **kwargs)
            if after:
                self.begin(after)
            return result

        setattr(algorithm, name, with_stages)


class Trace(TorchDispatchMode):
    """`points`: (seconds, live bytes) after each operator."""

    def __init__(self, card: VirtualCard, clock):
        super().__init__()
        self.card, self.clock, self.points = card, clock, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.points.append((self.clock(), self.card.live_bytes))
        return result


def counted_bytes(planned: Plan, device: str) -> dict[str, int]:
    """The bytes of a plan that a VirtualCard on that device counts, by stage. On a GPU, they include the margins for
    the workspaces of operators."""
    return planned.needed if device.startswith("cuda") else planned.stages


def plan_over_run(planned: Plan, stages: dict[str, int], device: str) -> dict[str, float]:
    """The planned bytes of each stage over its peak in a run (`update`'s "stages")."""
    peaks = {
        "collect": stages["collect"],
        "preprocess": max(stages["returns"], stages["logp_old"]),
        "learn": stages["learn"],
    }
    return {stage: size / peaks[stage] for stage, size in counted_bytes(planned, device).items()}
