"""Instruments that measure memory and time, with torch and without knowledge of any case. They are imported lazily."""

from rlrepro.lab.lazy_imports import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    extra="lab",
    submod_attrs={
        "machine": ["Machine", "NoGPUError", "resolve_device", "this_machine"],
        "memory": ["PeakMemory", "peak_memory"],
        "memory_history": ["MemoryHistory"],
        "releases": ["Release", "ReleaseDied", "ReleaseError", "ReleaseTimeout", "ReleaseUnavailable", "Source"],
        "timeline": ["TimelinePoint", "timeline"],
        "timing": ["Comparison", "compare"],
        "units": ["UNITS", "format_value"],
        "virtual_card": ["VirtualCard"],
    },
)
