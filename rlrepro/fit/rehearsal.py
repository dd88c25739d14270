"""A few rows, run for real, so that operators can be measured: the counterpart of a dry run."""

import copy
from contextlib import ExitStack

import torch

from rlrepro.fit.blanks import BlanksToTorch, blank_parameters, random_states_kept


class Rehearsal:
    """Stands where a DryRun does; tensors are real and nothing is counted."""

    def __init__(self, device: torch.device):
        self.device = device

    def __enter__(self):
        self._stack = ExitStack()
        for context in (random_states_kept(), self.device, BlanksToTorch()):
            self._stack.enter_context(context)

    def __exit__(self, *raised):
        self._stack.close()

    def copy(self, module: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
        """The same module in that precision, with parameters of its own, all zero."""
        on_meta = copy.deepcopy(module, _with_parameters_on_meta(module))
        return blank_parameters(on_meta, dtype, self.device)

    def remember_forwards(self, module: torch.nn.Module) -> None:
        """Nothing: each forward pass is run."""


def _with_parameters_on_meta(module) -> dict:
    """A memo of deepcopy, by which parameters and buffers are not copied with their memory."""
    memo = {}
    for tensor in (*module.parameters(), *module.buffers()):
        is_parameter, on_meta = isinstance(tensor, torch.nn.Parameter), torch.empty_like(tensor, device="meta")
        memo[id(tensor)] = torch.nn.Parameter(on_meta, tensor.requires_grad) if is_parameter else on_meta
    return memo
