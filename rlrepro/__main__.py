"""`python -m rlrepro`: also from a checkout that is not installed, where PYTHONPATH names it and what it needs."""

import os
from pathlib import Path

from rlrepro.cli import main

if os.environ.get("PYTHONPATH"):  # notebooks run in another folder than this one, and must find the same
    paths = os.environ["PYTHONPATH"].split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(str(Path(path).absolute()) for path in paths)

main()
