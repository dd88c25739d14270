"""Texts that the doctor examines, and what it found in them."""

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


def versions_for(given):
    return Versions({name: f"=={release}" for name, release in given.items()})


def notebook(*cells):
    return json.dumps({"cells": [{"cell_type": kind, "source": source} for kind, source in cells]})


def examined(tmp_path, text, *, versions=OLD, **options):
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(text))
    return examine([path], versions=versions, **options)


def codes(found):
    return {finding.code for finding in found.findings}
