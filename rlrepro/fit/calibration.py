"""A few rows, run for real, so that operators can be measured: the counterpart of a dry run."""

from contextlib import ExitStack, nullcontext

import torch

from rlrepro.fit.zero_memory_tensors import BlanksToTorch, copy_together, kind_of, usual_settings


class Rehearsal:
    """Stands where a DryRun does; tensors are real, and nothing is counted, but `watch` sees each operator."""

    def __init__(self, device: torch.device):
        self.device, self.watch = device, nullcontext()

    def __enter__(self):
        self._stack = ExitStack()
        for context in (usual_settings(self.device), self.watch, BlanksToTorch()):
            self._stack.enter_context(context)

    def __exit__(self, *raised):
        self._stack.close()

    def copy(self, modules: list[torch.nn.Module], dtype: torch.dtype | None) -> list[torch.nn.Module]:
        """The same modules in that precision, with tensors of their own."""
        with usual_settings(self.device):
            return copy_together(modules, lambda tensor: tensor.to(self.device, kind_of(tensor, dtype), copy=True))

    def remember_forwards(self, module: torch.nn.Module) -> None:
        """Nothing: each forward pass is run."""
