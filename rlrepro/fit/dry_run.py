"""Run a library's own code with tensors that have shapes and no memory, and count what would be live.

The tensors are torch's FakeTensors; the account is VirtualCard's, so that a plan and a card agree to the byte.
"""

from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from rlrepro.fit.operators import OperatorMemory
from rlrepro.fit.zero_memory_tensors import BlanksToTorch, arrays_of_fakes, copy_together, kind_of, usual_settings
from rlrepro.lab.storage_tracker import StorageCount


class DryRun:
    """A context in which tensors take no memory, and what a card would hold is counted.

    Numbers read from a tensor (`.item()`, `.numpy()`) are ones and zeros: code that only logs them goes on, and code
    that decides by them takes one of its branches.

    A peak is an array of two: live tensors, and with what operators take for themselves on the way, as far as
    `operators` knows it. With `copied_to_card`, arrays that are made tensors are counted, as on a card, to which they
    are copied; on a CPU they are borrowed.
    """

    def __init__(self, *, copied_to_card: bool, operators: OperatorMemory):
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.count = StorageCount(None, torch.device("cpu"))
        self.with_temporaries = 0
        self._stack = None
        self._operators, self._copied = operators, copied_to_card
        self._forwards_are_free = False

    def __enter__(self):
        if self._stack is not None:
            raise RuntimeError("this dry run is entered already")
        self._stack = ExitStack()
        blanks = BlanksToTorch(nullcontext if self._copied else self.count.leaving_out)
        usual = usual_settings(torch.device("cpu"))
        for context in (usual, arrays_of_fakes(), self.fake, self.count, _Operators(self), blanks):
            self._stack.enter_context(context)
        return self

    def __exit__(self, *raised):
        self._stack.close()
        self._stack = None

    def copy(self, modules: list[torch.nn.Module], dtype: torch.dtype | None) -> list[torch.nn.Module]:
        """The same modules in that precision, with tensors that take no memory. Call it outside the context."""

        def stand_in(tensor):
            with self.fake, self.count:  # counted from here on, read or not
                return torch.empty(tensor.shape, dtype=kind_of(tensor, dtype), device="cpu")

        with usual_settings(torch.device("cpu")), FakeCopyMode(self.fake):
            return copy_together(modules, stand_in)

    def peak_of(self, fn) -> tuple[np.ndarray, object]:
        """The most bytes live at once during `fn()`, what was live before included; and its result."""
        earlier = self._peaks()
        self._restart(self.count.live_bytes, self.count.live_bytes)
        result = fn()
        peaks = self._peaks()
        self._restart(*np.maximum(earlier, peaks))
        return peaks, result

    def _peaks(self) -> np.ndarray:
        return np.array([self.count.peak_bytes, max(self.count.peak_bytes, self.with_temporaries)])

    def _restart(self, tensors, with_temporaries):
        self.count.peak_bytes, self.with_temporaries = int(tensors), int(with_temporaries)

    def ran(self, func, args, result):
        """Take an operator's own memory into account; its result, with parts whose size fake tensors did not know."""
        if isinstance(result, tuple) and any(isinstance(part, torch.Tensor) and not part.numel() for part in result):
            result = self._with_sizes(result, self._operators.results(func, args))
        live = self.count.live_bytes + self._operators.taken(func, args) + self._operators.workspaces
        self.with_temporaries = max(self.with_temporaries, live)
        return result

    @staticmethod
    def _with_sizes(parts, sizes):
        """The parts of a result, with those that came out empty in the sizes that were measured."""
        if sizes is None or not all(isinstance(part, torch.Tensor) for part in parts):
            return parts
        if len(sizes) != sum(part.dim() for part in parts):
            return parts
        sizes = iter(sizes)
        shapes = [[next(sizes) for _ in part.shape] for part in parts]
        return type(parts)(
            part if part.numel() else part.new_empty(shape) for part, shape in zip(parts, shapes, strict=True)
        )

    def remember_forwards(self, module: torch.nn.Module) -> None:
        """Work out a forward pass without gradients once for each shape of input; a chunk like the one before is then
        accounted for by what that one took."""
        forward, known = module.forward, {}

        def remembering(*args, **kwargs):
            if torch.is_grad_enabled():
                return forward(*args, **kwargs)
            key = tuple(tuple(leaf.shape) for leaf in tree_leaves((args, kwargs)) if hasattr(leaf, "shape"))
            if key not in known:
                before = self.count.live_bytes
                peaks, result = self.peak_of(lambda: forward(*args, **kwargs))
                like = tree_map_only(torch.Tensor, lambda each: _Like(each.shape, each.stride(), each.dtype), result)
                known[key] = peaks - before, like
                return result
            more, like = known[key]
            if not self._forwards_are_free:
                self._restart(*np.maximum(self._peaks(), self.count.live_bytes + more))
            return tree_map_only(_Like, lambda like: like.blank(), like)

        module.forward = remembering

    @contextmanager
    def forwards_for_free(self):
        """Leave what a remembered forward pass takes on its way out of the account."""
        self._forwards_are_free = True
        try:
            yield
        finally:
            self._forwards_are_free = False


@dataclass(frozen=True)
class _Like:
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    def blank(self) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype)


ANSWER = "rlrepro_answer"  # on a fake tensor: what its number is


class _Operators(TorchDispatchMode):
    """Tells the run of each operator, and answers where a number of a fake tensor is asked for: whether all are so
    (finite, say) with yes, whether any is so (not a number, say) with no, and otherwise with a one."""

    def __init__(self, run: DryRun):
        super().__init__()
        self.run = run

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.prim.device.default:
            return args[0].fake_device  # asked for so often that it is answered here
        if func is torch.ops.aten._local_scalar_dense.default:
            one = 1.0 if args[0].is_floating_point() else args[0].dtype is torch.bool or 1
            return getattr(args[0], ANSWER, one)
        result = self.run.ran(func, args, func(*args, **(kwargs or {})))
        if func.overloadpacket is torch.ops.aten.any:
            setattr(result, ANSWER, False)
        return result
