"""Python imports this when it starts, if this folder is on its path: for the scripts of the sample project."""

import sys

sys.modules["ray"] = None  # tianshou and torchrl import Ray if it is installed, which takes seconds and isn't used here
