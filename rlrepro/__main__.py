"""`python -m rlrepro`, also in a checkout that is not installed, if PYTHONPATH lists it and its dependencies."""

import os
from pathlib import Path

from rlrepro.cli import main

if os.environ.get("PYTHONPATH"):  # notebooks run in another folder, where relative paths would break
    paths = os.environ["PYTHONPATH"].split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(str(Path(path).absolute()) for path in paths)

main()
