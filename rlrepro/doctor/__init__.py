"""Find these problems in somebody's own project: its text is read and nothing of it is run.

from rlrepro.doctor import examine

for finding in examine(["my_project"]).findings:
    print(finding)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "examination": ["Examination", "examine"],
        "finding": ["Finding", "Rule"],
        "live.watching": ["watch"],
    },
)
