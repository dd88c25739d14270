"""The processor, as Linux describes it: virtual machines often hide its name, but not its model, caches and clock."""

import platform
import re
from functools import cache
from pathlib import Path

IDENTITY = ("vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU variant", "CPU part")


@cache
def processor(root: Path = Path("/")) -> dict[str, str | float | None]:
    """`cpu`, its name; `cpu_model`, vendor and model numbers; `caches` of the first core; `clock_mhz`, its highest if
    the system says so, otherwise the present one. None for what is unknown."""
    cpuinfo = root / "proc/cpuinfo"
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    fields = dict(re.findall(r"^(.+?)\s*: (.+)$", text.split("\n\n")[0], re.MULTILINE))
    core = root / "sys/devices/system/cpu/cpu0"
    caches = [
        [_read(index / name) for name in ("level", "type", "size")] for index in sorted(core.glob("cache/index*"))
    ]
    max_khz = _read(core / "cpufreq/cpuinfo_max_freq")  # in kHz
    return {
        "cpu": fields.get("model name") or platform.processor() or platform.machine(),
        "cpu_model": ", ".join(f"{name} {fields[name]}" for name in IDENTITY if name in fields) or None,
        "caches": ", ".join(f"L{level} {kind.lower()} {size}" for level, kind, size in caches) or None,
        "clock_mhz": float(max_khz) / 1000 if max_khz else float(fields["cpu MHz"]) if "cpu MHz" in fields else None,
    }


def _read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""
