"""Texts for the doctor to examine, and helpers to read its findings."""

import json
import textwrap

from rlrepro.doctor import examine
from rlrepro.doctor.versions import Versions

OLD = Versions({"tianshou": "==1.0.0", "torchrl": "==0.6.0"})
PPO = """\
from tianshou.policy import PPOPolicy
from networks import actor, critic
policy = PPOPolicy(actor=actor, critic=critic)
"""


def versions_for(releases):
    return Versions({name: f"=={release}" for name, release in releases.items()})


def notebook(*cells):
    return json.dumps({"cells": [{"cell_type": kind, "source": source} for kind, source in cells]})


def examined(tmp_path, text, *, versions=OLD, **options):
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(text))
    return examine([path], versions=versions, **options)


def codes(report):
    return {finding.code for finding in report.findings}
