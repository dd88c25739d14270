"""Python imports this at startup if this folder is on its path, as it is for the scripts of the sample project."""

import sys

sys.modules["ray"] = None  # tianshou and torchrl import Ray if it is installed, which takes seconds and isn't used here
