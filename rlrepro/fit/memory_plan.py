"""What plan() returns: the peak memory of each stage, and what fits on a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from rlrepro.fit.reserved import RESERVE_GIB, Reserved
from rlrepro.lab.units import format_value

if TYPE_CHECKING:
    from rlrepro.fit.update_planner import UpdatePlanner


class CannotPlan(ValueError):
    """An update or an argument that can't be planned. The message says why and, where possible, what to change."""


def check_size(name: str, size, *, optional: bool = False) -> None:
    """Raise CannotPlan unless the size is a positive whole number, or None for an optional size."""
    is_whole = isinstance(size, int | np.integer) and not isinstance(size, bool)
    if not (optional and size is None) and not (is_whole and size >= 1):
        raise CannotPlan(f"{name} must be a whole number, at least 1; found {size!r}")


@dataclass(frozen=True)
class Plan:
    """The memory that one update needs, by stage.

    `sizes` are those that were planned; each is an attribute too. `stages` maps each stage to its peak in bytes of live
    tensors on the GPU: weights, gradients, optimizer state, the rollout's tensors and activations. `margins` maps it
    to the bytes that operators need in addition (their workspaces), as measured on this machine or, for a GPU that is
    not here, as estimated (a different GPU may choose different algorithms), plus a small reserve; it is empty if
    nothing was measured. Neither includes memory that the allocator caches or loses to fragmentation: see `reserved()`.
    `host_stages` maps stages to the bytes that arrays and tensors take outside the GPU meanwhile; it is empty if that
    is not known. `notes` say what was planned differently from how it will run.
    """

    sizes: dict[str, int | None]
    device_memory_gib: float | None
    stages: dict[str, int]
    margins: dict[str, int]
    _planner: UpdatePlanner = field(repr=False, compare=False)  # plans the same networks at other sizes
    host_stages: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __getattr__(self, name: str):
        if name != "sizes" and name in self.sizes:
            return self.sizes[name]
        raise AttributeError(f"this plan has no {name!r}; its sizes are {', '.join(self.__dict__.get('sizes', ()))}")

    def at(self, **sizes) -> Plan:
        """The same update with another value of any of its `sizes`, or of `device_memory_gib`. Raises CannotPlan for an
        invalid size."""
        return self._planner.plan(**{**self.sizes, "device_memory_gib": self.device_memory_gib, **sizes})

    @property
    def host_bytes(self) -> int | None:
        """The peak of arrays and tensors outside the GPU, in bytes; None if that is not known."""
        return max(self.host_stages.values(), default=None)

    @property
    def needed(self) -> dict[str, int]:
        """Bytes that each stage needs, including its margin."""
        return {stage: peak + self.margins.get(stage, 0) for stage, peak in self.stages.items()}

    @property
    def peak_bytes(self) -> int:
        return max(self.needed.values())

    def fits(self, gib: float | None = None) -> bool:
        """Whether every stage, including its margin, fits on a GPU of `gib` GiB (`device_memory_gib` by default).
        Raises CannotPlan if neither is given."""
        return self.failing_stage(gib) is None

    def failing_stage(self, gib: float | None = None) -> str | None:
        """The first stage that does not fit, in the order in which they run; None if all of them fit."""
        limit = self._limit_bytes(gib)
        return next((stage for stage, peak in self.needed.items() if peak > limit), None)

    def largest(self, size: str, gib: float | None = None, *, multiple_of: int = 1) -> int | None:
        """The largest value of one of the `sizes` that fits, with the other sizes as they are: 0 if none does, and None
        if the GPU sets no limit. Raises CannotPlan for an unknown size.

        In an update of your own, every stage must fit, and the result is a multiple of `multiple_of`. In the update of
        a library for networks (`plan`), only `learn` limits `batch_size`, and only `preprocess` limits
        `max_batchsize`.
        """
        return self._planner.largest(self, size, self._limit_bytes(gib), multiple_of)

    def reserved(self, *others: Plan, expandable_segments: bool = False, reserve_gib: float = RESERVE_GIB) -> Reserved:
        """What torch's caching allocator reserves for two of these updates, and then for two with the sizes of each of
        the `others`, which are plans of the same update: changing sizes leave gaps. What operators need is
        included, but not the small reserve in `margins`. This is only available for updates of your own.

        Args:
            expandable_segments: as "expandable_segments:True" in PYTORCH_CUDA_ALLOC_CONF
            reserve_gib: memory on the GPU outside torch: by default, half a GiB for the CUDA context and the kernels
                that torch's libraries load. To measure it on your GPU, subtract torch.cuda.memory_reserved() from what
                nvidia-smi shows for your process. Add what a simulator takes there.
        """
        if not hasattr(self._planner, "trace"):
            raise CannotPlan("reserved() is only available for updates of your own, planned with plan_update")
        trace = self._planner.trace(self, *others)
        return Reserved.of(trace, expandable_segments=expandable_segments, reserve_gib=reserve_gib)

    def largest_batch_size(self, gib: float | None = None) -> int | None:
        """The largest minibatch for which `learn` fits with this rollout: 0 if even 1 does not fit, and the length of
        the rollout if all of it fits at once. For an update of your own, `largest("batch_size")`.

        tianshou joins a short remainder to the last minibatch, which makes that one larger, so some smaller sizes may
        not fit.
        """
        return self.largest("batch_size", gib)

    def largest_max_batchsize(self, gib: float | None = None) -> int:
        """The largest chunk for which `preprocess` fits with this rollout, as above. Raises CannotPlan for a library
        without this parameter."""
        return self.largest("max_batchsize", gib)

    def largest_rollout(self, gib: float | None = None) -> int | None:
        """The longest rollout that fits on the GPU with these batch sizes, whatever is left over when it is divided by
        them; 0 if no rollout fits, and None if the GPU sets no limit. Some shorter rollouts, whose remainder makes a
        minibatch larger, may not fit. Observations in host memory are not counted."""
        return self.largest("rollout", gib)

    def _limit_bytes(self, gib: float | None) -> int:
        return limit_bytes(self.device_memory_gib if gib is None else gib)

    def __str__(self) -> str:
        lines = []
        for stage, peak in self.stages.items():
            margin = f" + {format_value(self.margins[stage], 'B'):>9} for operators" if self.margins else ""
            lines.append(f"{stage:12}{format_value(peak, 'B'):>12} of tensors{margin}")
        if self.host_bytes:
            stage = max(self.host_stages, key=self.host_stages.get)
            lines.append(
                f"{'host memory':12}{format_value(self.host_bytes, 'B'):>12} of arrays and tensors, at most: in {stage}"
            )
        lines += (f"note: {note}" for note in self.notes)
        return "\n".join(lines)


def limit_bytes(gib: float | None) -> int:
    """GiB as bytes. Raises CannotPlan unless `gib` is a positive, finite number."""
    if not isinstance(gib, Real) or not 0 < gib < inf:
        raise CannotPlan(f"gib must be a positive number of GiB (or pass device_memory_gib to plan()), found {gib!r}")
    return int(gib * 2**30)
