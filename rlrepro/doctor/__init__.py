"""Find memory and speed problems in a project: in its files, which are never run, and in a training run.

from rlrepro.doctor import examine, watch

for finding in examine(["my_project"]).findings:
    print(finding)

with watch():
    train()
"""

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "scan": ["Scan", "examine"],
        "finding": ["Finding", "Rule"],
        "live.command": ["run"],
        "live.report": ["Report"],
        "live.watch": ["watch"],
    },
)


def __getattr__(name: str):
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        from rlrepro.metadata import advice

        if (said := advice(f"rlrepro.doctor.{name}", "watch", error)) is None:
            raise
        raise ModuleNotFoundError(said, name=error.name) from error
