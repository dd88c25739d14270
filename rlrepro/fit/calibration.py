"""Runs a few rows for real, so that operators can be measured: the counterpart of a dry run."""

from contextlib import ExitStack, nullcontext

import torch

from rlrepro.fit.zero_memory_tensors import BlankArraysToTensors, copy_together, default_settings


class CalibrationRun:
    """Has the interface of a DryRun for `update`, but its tensors are real. It counts nothing; `watch` sees each
    operator."""

    def __init__(self, device: torch.device):
        self.device, self.watch = device, nullcontext()

    def __enter__(self):
        self._stack = ExitStack()
        for context in (default_settings(self.device), self.watch, BlankArraysToTensors()):
            self._stack.enter_context(context)

    def __exit__(self, *raised):
        self._stack.close()

    def copy(self, modules: list[torch.nn.Module], dtype: torch.dtype | None) -> list[torch.nn.Module]:
        """Copies of the modules in that precision."""
        with default_settings(self.device):
            return copy_together(modules, dtype, lambda tensor, dtype: tensor.to(self.device, dtype, copy=True))
