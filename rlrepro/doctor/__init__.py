"""Find memory and speed problems in a project: in its files, which are never run, and in a training run.

from rlrepro.doctor import examine, watch

for finding in examine(["my_project"]).findings:
    print(finding)

with watch():
    train()
"""

from rlrepro.lab.lazy_imports import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    extra="watch",
    submod_attrs={
        "scan": ["Scan", "examine"],
        "finding": ["Finding", "Rule"],
        "live.command": ["run"],
        "live.report": ["Report"],
        "live.watch": ["watch"],
    },
)
