"""The workspaces of cuBLAS, which multiplies matrices on a GPU, and of cuBLASLt, which also adds a bias. A thread's
first product allocates them, and they stay. Backward passes run in another thread, so training has cuBLAS's twice."""

from collections.abc import Callable

import torch

from rlrepro.fit.real_card import real_card
from rlrepro.lab.machine import resolve_device

aten = torch.ops.aten
WITH_BIAS = {aten.addmm.default, aten._addmm_activation.default}
PRODUCTS = WITH_BIAS | {
    getattr(aten, name).default for name in ("mm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot")
}
# torch's defaults for compute capability 9.0 (aten/src/ATen/cuda/CublasHandlePool.cpp)
LARGEST = {"cuBLAS": 8 * 4096 * 2**10, "cuBLASLt": 1024 * 2**10}
NONE = dict.fromkeys(LARGEST, 0)


def workspaces(func) -> set[tuple[str, bool]]:
    """The workspaces that an operator uses, as (library, whether it belongs to the thread of backward passes)."""
    if func not in PRODUCTS:
        return set()
    in_backward = torch._C._current_graph_task_id() >= 0
    return {(library, in_backward) for library in (LARGEST if func in WITH_BIAS else ["cuBLAS"])}


def workspace_bytes(device: str) -> dict[str, int]:
    """Bytes of a workspace of each library, on this machine's GPU or, without one, the largest on any; 0 on a CPU."""
    if device == "cpu":
        return NONE
    with real_card():
        card = resolve_device("auto")
        if card.type == "cpu":
            return LARGEST
        ones = torch.ones(8, 8, device=card)
        of_product = _workspace_of(lambda: ones @ ones, card)
        with_bias = _workspace_of(lambda: torch.addmm(ones[0], ones, ones), card)
    return {"cuBLAS": of_product, "cuBLASLt": max(0, with_bias - of_product)}


def _workspace_of(product: Callable, card: torch.device) -> int:
    torch._C._cuda_clearCublasWorkspaces()  # those of all threads; they are allocated again when needed
    product()
    before = torch.cuda.memory_allocated(card)
    torch._C._cuda_clearCublasWorkspaces()
    return before - torch.cuda.memory_allocated(card)
