"""Pearl itself where it is available, otherwise its reimplementation."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from rlrepro.cases.large_actions import COMMIT, pearl_reimplementation
from rlrepro.lab import Release, ReleaseUnavailable

FILES = {  # that this chapter describes, with the first digits of their SHA-256 at COMMIT
    "replay_buffers/tensor_based_replay_buffer.py": "cf8883c9692c8cd2",
    "replay_buffers/basic_replay_buffer.py": "8f9f87b0af3d1b79",
    "replay_buffers/sequential_decision_making/bootstrap_replay_buffer.py": "fa327ce60a036c5f",
    "neural_networks/sequential_decision_making/q_value_networks.py": "fb3b78a69e519630",
    "policy_learners/sequential_decision_making/actor_critic_base.py": "43c94882b5cbf4da",
    "policy_learners/sequential_decision_making/soft_actor_critic.py": "d51187d470dc6bc9",
    "history_summarization_modules/lstm_history_summarization_module.py": "22b2b7a834bd3ae5",
}


class PearlBackend:
    """Runs functions of `pearl` on the source in the folder `path` or RLREPRO_PEARL. If neither is given, it runs the
    functions of the same names in `pearl_reimplementation`. `source` is "pearl" or "model" accordingly.

    Raises ReleaseUnavailable if the folder does not contain Pearl, or contains another version.
    """

    def __init__(self, path: str | Path | None = None):
        try:
            self._release = Release("pearl", path=path)
        except ValueError:  # no folder was named
            self._release = None
        else:
            check_version(self._release.path)
        self.source = "pearl" if self._release else "model"

    def run(self, function: Callable, *args, **options):
        """Call this function of `pearl`, or its counterpart in `pearl_reimplementation`."""
        if self._release:
            return self._release.run(function, *args, **options)
        return getattr(pearl_reimplementation, function.__name__)(*args, **options)

    def close(self) -> None:
        if self._release:
            self._release.close()


def check_version(folder: Path) -> None:
    """Raises ReleaseUnavailable if a file that the chapter describes differs from the commit's."""
    for name, digest in FILES.items():
        path = folder / "pearl" / name
        actual = hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else None
        if actual != digest:
            raise ReleaseUnavailable(
                f"{path} is {'missing' if actual is None else 'from another version'}; expected Pearl at {COMMIT}: "
                f"git clone https://github.com/facebookresearch/Pearl && git -C Pearl checkout {COMMIT}"
            )
