"""What functions of torch return on a machine with one GPU."""

from types import SimpleNamespace
from unittest.mock import MagicMock

import torch

MEMORY, PROCESSORS = 80 * 2**30, {"multi_processor_count": 108}  # of an A100
CUDA = {
    "is_available": True,
    "is_bf16_supported": True,
    "device_count": 1,
    "current_device": 0,
    "get_device_name": "planned GPU",
    "get_device_capability": (8, 0),
    "get_device_properties": SimpleNamespace(name="planned GPU", total_memory=MEMORY, major=8, minor=0, **PROCESSORS),
    "mem_get_info": (MEMORY, MEMORY),
    **dict.fromkeys(("_lazy_init", "synchronize", "empty_cache", "manual_seed", "manual_seed_all", "set_device")),
    **dict.fromkeys(("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"), 0),
    "reset_peak_memory_stats": None,
    **dict.fromkeys(("current_stream", "default_stream", "Stream", "stream", "Event"), MagicMock()),
    "is_current_stream_capturing": False,
}
ACCELERATOR = {
    "is_available": True,
    "device_count": 1,
    "current_accelerator": torch.device("cuda"),
    "current_device_index": 0,
    "current_stream": SimpleNamespace(is_capturing=lambda: False),
    "synchronize": None,
}
RETURN_VALUES = {torch.cuda: CUDA, torch.accelerator: ACCELERATOR}
