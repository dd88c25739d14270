"""Find these problems in somebody's own project: in its text, of which nothing is run, and in a training that runs.

from rlrepro.doctor import examine, watch

for finding in examine(["my_project"]).findings:
    print(finding)

with watch():
    train()
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "scan": ["Scan", "examine"],
        "finding": ["Finding", "Rule"],
        "live.command": ["run"],
        "live.report": ["Report"],
        "live.watch": ["watch"],
    },
)
