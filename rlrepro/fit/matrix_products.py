"""The workspaces of cuBLAS: a thread's first matrix product on a GPU allocates one, which then stays. A backward pass
runs in another thread, so training allocates two."""

import torch

from rlrepro.fit.real_card import real_card
from rlrepro.lab.machine import resolve_device

aten = torch.ops.aten
PRODUCTS = {
    getattr(aten, name).default
    for name in ("mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "_addmm_activation")
}
LARGEST = 8 * 4096 * 2**10  # torch's default for compute capability 9.0 (aten/src/ATen/cuda/CublasHandlePool.cpp)


def in_backward() -> bool:
    """Whether the current operator belongs to a backward pass, which has a thread of its own on a GPU."""
    return torch._C._current_graph_task_id() >= 0


def workspace_bytes(device: str) -> int:
    """Bytes of one workspace: that of this machine's GPU or, without one, the largest of any GPU; 0 on a CPU."""
    if device == "cpu":
        return 0
    with real_card():
        card = resolve_device("auto")
        if card.type == "cpu":
            return LARGEST
        torch._C._cuda_clearCublasWorkspaces()  # those of all threads; they are allocated again when needed
        ones = torch.ones(8, 8, device=card)
        ones @ ones
        before = torch.cuda.memory_allocated(card)
        torch._C._cuda_clearCublasWorkspaces()
        return before - torch.cuda.memory_allocated(card)
