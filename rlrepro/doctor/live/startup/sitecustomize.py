"""Python imports this when it starts, where the folder is on its path. It must fail in no process, whosever that is."""

import os
import sys
from pathlib import Path

here = str(Path(__file__).parent)
sys.path[:] = [each for each in sys.path if each != here]
folder = Path(os.environ.get("RLREPRO_DOCTOR_NOTES", "/nowhere"))
try:
    if folder.is_dir():
        from rlrepro.doctor.live.startup import begin

        begin(folder)
except Exception as error:
    (folder / f"{os.getpid()}.failed").write_text(f"{sys.executable}: {type(error).__name__}: {error}")

mine = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize  # noqa: F401, the one that would have been there
except ImportError:
    sys.modules["sitecustomize"] = mine
