"""rlrepro doctor --fix: it writes correct fixes, and where it can't write, nothing is lost."""

import ast
import textwrap

import pytest

from rlrepro.doctor import examine
from rlrepro.doctor.ast_index import Module
from rlrepro.doctor.autofix import fixed_files
from rlrepro.doctor.edits import rewritten, with_argument
from rlrepro.doctor.versions import Versions

from .doctor_corpus import INNOCENT, TROUBLED
from .doctor_texts import OLD, versions_for

FIXABLE = {"TS001", "TS002", "TS004", "TR003", "TR004", "TR005", "TR006", "PT001", "PT005", "TO001", "TO002", "TO003"}
CACHE = """\
from torchrl.data import LazyTensorStorage, ReplayBuffer, SliceSampler

buffer = ReplayBuffer(storage=LazyTensorStorage(10), sampler=SliceSampler(slice_len=4), batch_size=8)
for _ in range(100):
    buffer.sample()
"""
SEARCHES = """\
from tianshou.data import Collector
from tianshou.trainer import OffPolicyTrainerParams


def train(algorithm, envs):  # no_grad
    collector = Collector(algorithm, envs)
    algorithm.run_training(OffPolicyTrainerParams(training_collector=collector))


train(None, None)
"""


def fixed_by_doctor(path, versions=OLD):
    report = examine([path], versions=versions)
    return fixed_files(report)


@pytest.mark.parametrize("title", TROUBLED)
def test_fixed_problems_are_not_found_again(tmp_path, title):
    expected, releases, text = TROUBLED[title]
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(text))
    before = examine([path], versions=versions_for(releases))
    for file in fixed_files(before):
        file.write()
    ast.parse(path.read_text())
    after = examine([path], versions=versions_for(releases))
    sure = {finding.code for finding in before.findings if finding.confidence != "low"}
    remaining = {finding.code for finding in after.findings}
    assert remaining <= expected  # nothing new is wrong
    fixed = sure & FIXABLE - ({"PT001"} if "PT001" in remaining else set())  # where no training code is in the text
    assert not remaining & fixed
    assert not fixed_files(after)  # a second run has nothing to do


def test_the_nan_check_is_switched_on_below_the_collector(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SEARCHES)
    assert {finding.code for finding in examine([path]).findings} == {"TS005"}
    for file in fixed_by_doctor(path, None):
        file.write()
    text = path.read_text()
    assert "    collector = Collector(algorithm, envs)\n    incremental_nan_check()\n" in text
    assert "from rlrepro.fixes import incremental_nan_check\n" in text and not examine([path]).findings


@pytest.mark.parametrize("title", INNOCENT)
def test_an_innocent_text_stays_as_it_is(tmp_path, title):
    releases, text = INNOCENT[title]
    (tmp_path / "train.py").write_text(textwrap.dedent(text))
    assert fixed_by_doctor(tmp_path / "train.py", versions_for(releases)) == []


CALLS = {
    "f()": "f(x=1)",
    "f(a)": "f(a, x=1)",
    "f(a, )": "f(a, x=1 )",
    "f((a))": "f((a), x=1)",
    "f(x=2)": "f(x=1)",
    "f(x=args.x)": "f(x=args.x)",
    "f(a, x=None, b=3)": "f(a, x=1, b=3)",
    "f(\n    a,\n    b=2,\n)": "f(\n    a,\n    b=2,\n    x=1,\n)",
    "f(\n    a,  # why, (\n    b=')'  # )\n)": "f(\n    a,  # why, (\n    b=')', x=1  # )\n)",
    "f(a,\n  b)": "f(a,\n  b, x=1)",
    "f(*a, **b)": "f(*a, **b, x=1)",
    "g(f(a), 'ü', f(b))": "g(f(a, x=1), 'ü', f(b, x=1))",
    "f(lambda a: (a, 1))": "f(lambda a: (a, 1), x=1)",
    "f(\n)": "f(x=1\n)",
    "f(  # none\n)": "f(x=1  # none\n)",
}


@pytest.mark.parametrize("text", CALLS)
def test_an_argument_is_given(text):
    module = Module(ast.parse(text), text)
    calls = [call for call in module.all_calls if call.func.id == "f"]
    assert rewritten(text, [edit for call in calls for edit in with_argument(module, call, "x", "1")]) == CALLS[text]


SWEEP = """\
from stable_baselines3 import PPO
import multiprocessing
def train(seed): PPO("MlpPolicy", "Pendulum-v1", seed=seed).learn(9)
multiprocessing.Pool(8).map(train, range(8))
"""
LINE = 'import os\n\nos.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread per training process\n\n'


@pytest.mark.parametrize(
    "above, below, written",
    [
        ("", "", True),
        ("#!/usr/bin/env python\n# -*- coding: latin-1 -*-\n", "# é\n", True),
        ('"""A sweep."""\n\nfrom __future__ import annotations\n\n', "", True),
        ("from __future__ import annotations; import torch; ", "", False),
        ("x = 1; ", "", False),
        ("    # indented\n", "", True),
    ],
)
def test_a_variable_is_set_before_the_imports(tmp_path, above, below, written):
    path = tmp_path / "sweep.py"
    path.write_text(above + SWEEP + below, encoding="latin-1")
    for file in fixed_by_doctor(path):
        file.write()
    assert path.read_text(encoding="latin-1") == above + (LINE if written else "") + SWEEP + below


COLLECT = "from tianshou.data import Collector  # ours\n"
KEEPS = "{0}.collect = torch.no_grad()({0}.collect)"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("import torch\n" + COLLECT + "c = Collector(p, e)  # it\n", "c = Collector(p, e)  # it\n" + KEEPS.format("c")),
        (
            COLLECT + "if t:\n\tself.c = Collector(p, e)\n",
            "import torch\nif t:\n\tself.c = Collector(p, e)\n\t" + KEEPS.format("self.c"),
        ),
        (COLLECT + "if t: c = Collector(p, e)\n", None),
        (COLLECT + "c = Collector(p, e); d = 1\n", None),
        (COLLECT + "def f(): return Collector(p, e)\n", None),
        ("if TYPE_CHECKING:\n    import torch\n" + COLLECT + "c = Collector(p, e)\n", "  # ours\nimport torch\nc = "),
        ("def f():\n    from tianshou.data import Collector\n    c = Collector(p, e)\n", None),
    ],
)
def test_a_line_is_written_below_another(tmp_path, text, expected):
    path = tmp_path / "train.py"
    path.write_text(f"{text}\np = e = t = self = TYPE_CHECKING = None\n")
    files = fixed_by_doctor(path, Versions({"tianshou": "==1.2.0"}))
    if expected is None:
        assert files == []
    else:
        assert expected in files[0].after.decode()


def test_a_limit_of_threads_stays_before_what_loads_torch(tmp_path):
    text = "rows = []\n" + CACHE.replace("buffer.sample()", "buffer.extend(rows)\n    buffer.sample()")
    text = 'import os\nos.environ["OMP_NUM_THREADS"] = "1"\n' + text
    (tmp_path / "train.py").write_text(text)
    (fixed,) = fixed_by_doctor(tmp_path / "train.py")
    new = fixed.after.decode()
    assert new.index("environ") < new.index("from torchrl") < new.index("from rlrepro") < new.index("buffer =")
