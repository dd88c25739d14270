"""Which GPUs each of several processes may use."""

import os
import shutil
import subprocess
from itertools import takewhile

QUERY = ("--query-gpu=index", "--format=csv,noheader")
SECONDS = 60  # for nvidia-smi


def visible_cards(gpus: float) -> list[str]:
    """CUDA_VISIBLE_DEVICES for each of the processes that fit at once, with `gpus` GPUs each or a fraction of one.
    Raises RuntimeError if there are too few GPUs."""
    cards = _cards()
    if gpus < 1:
        slots = cards * int(1 / gpus + 1e-9)
    else:
        per_run = int(gpus)
        slots = [",".join(cards[i : i + per_run]) for i in range(0, len(cards) - per_run + 1, per_run)]
    if not slots:
        raise RuntimeError(
            f"gpus={gpus:g}, but this process may use {len(cards)} NVIDIA GPUs (nvidia-smi lists them, and "
            f"CUDA_VISIBLE_DEVICES is {os.environ.get('CUDA_VISIBLE_DEVICES')!r}): lower gpus, or leave it out"
        )
    return slots


def _cards() -> list[str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        output = subprocess.run([program, *QUERY], capture_output=True, text=True, check=True, timeout=SECONDS).stdout
    except (OSError, subprocess.SubprocessError):  # no driver
        return []
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is None:
        return output.split()
    cards = takewhile(lambda card: not card.strip().startswith("-"), allowed.split(","))  # CUDA stops at -1
    return [card.strip() for card in cards if card.strip()]
