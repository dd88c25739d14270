"""rlrepro doctor --fix: what it writes is right, and where it can't write nothing is lost."""

import ast
import json
import os
import stat
import textwrap

import pytest

from rlrepro.doctor import examine
from rlrepro.doctor.ast_index import Module
from rlrepro.doctor.autofix import Changed, fixed_files
from rlrepro.doctor.edits import rewritten, with_argument
from rlrepro.doctor.versions import Versions

from .doctor_corpus import INNOCENT, TROUBLED
from .test_doctor import versions_for

OLD = Versions({"tianshou": "==1.0.0", "torchrl": "==0.6.0"})
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
    found = examine([path], versions=versions)
    return fixed_files(found)


@pytest.mark.parametrize("title", TROUBLED)
def test_what_was_cured_is_not_found_again(tmp_path, title):
    expected, given, text = TROUBLED[title]
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(text))
    before = examine([path], versions=versions_for(given))
    for each in fixed_files(before):
        each.write()
    ast.parse(path.read_text())
    after = examine([path], versions=versions_for(given))
    sure = {finding.code for finding in before.findings if finding.confidence != "low"}
    left = {finding.code for finding in after.findings}
    assert left <= expected  # nothing new is wrong
    fixed = sure & FIXABLE - ({"PT001"} if "PT001" in left else set())  # where nothing in the text trains
    assert not left & fixed
    assert not fixed_files(after)  # and a second time there is nothing to do


def test_the_nan_check_is_switched_on_below_the_collector(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SEARCHES)
    assert {finding.code for finding in examine([path]).findings} == {"TS005"}
    for each in fixed_by_doctor(path, None):
        each.write()
    text = path.read_text()
    assert "    collector = Collector(algorithm, envs)\n    incremental_nan_check()\n" in text
    assert "from rlrepro.fixes import incremental_nan_check\n" in text and not examine([path]).findings


@pytest.mark.parametrize("title", INNOCENT)
def test_an_innocent_text_stays_as_it_is(tmp_path, title):
    given, text = INNOCENT[title]
    (tmp_path / "train.py").write_text(textwrap.dedent(text))
    assert fixed_by_doctor(tmp_path / "train.py", versions_for(given)) == []


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


@pytest.mark.parametrize(
    "encoding, newline", [("utf-8", "\n"), ("utf-8", "\r\n"), ("utf-8-sig", "\n"), ("latin-1", "\n")]
)
def test_encodings_ends_of_lines_and_permissions_stay(tmp_path, encoding, newline):
    text = f"# -*- coding: {'utf-8' if encoding == 'utf-8-sig' else encoding} -*-\n# größe\n{CACHE}"
    path = tmp_path / "train.py"
    path.write_bytes(text.replace("\n", newline).encode(encoding))
    path.chmod(0o754)
    (fixed,) = fixed_by_doctor(path)
    fixed.write()
    expected = text.replace("slice_len=4)", "slice_len=4, cache_values=True)").replace("\n", newline)
    assert path.read_bytes() == expected.encode(encoding)
    assert stat.S_IMODE(path.stat().st_mode) == 0o754 and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("as_list", [True, False])
def test_a_cell_of_a_notebook(tmp_path, as_list):
    source = f"%matplotlib inline\n{CACHE}!ls"
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# größe"]},
        {
            "cell_type": "code",
            "metadata": {"tags": ["x"]},
            "outputs": [],
            "execution_count": None,
            "source": source.splitlines(keepends=True) if as_list else source,
        },
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": []},
    ]
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {"a": 1}, "nbformat": 4, "nbformat_minor": 5}, indent=1))
    (fixed,) = fixed_by_doctor(path)
    fixed.write()
    found = json.loads(path.read_text())
    changed = found["cells"][1]["source"]
    assert isinstance(changed, list) is as_list
    assert "".join(changed) == source.replace("slice_len=4)", "slice_len=4, cache_values=True)")
    found["cells"][1]["source"] = cells[1]["source"]
    assert found == {"cells": cells, "metadata": {"a": 1}, "nbformat": 4, "nbformat_minor": 5}


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
    for each in fixed_by_doctor(path):
        each.write()
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
    made = fixed_by_doctor(path, Versions({"tianshou": "==1.2.0"}))
    if expected is None:
        assert made == []
    else:
        assert expected in made[0].after.decode()


def test_a_limit_of_threads_stays_before_what_loads_torch(tmp_path):
    text = "rows = []\n" + CACHE.replace("buffer.sample()", "buffer.extend(rows)\n    buffer.sample()")
    text = 'import os\nos.environ["OMP_NUM_THREADS"] = "1"\n' + text
    (tmp_path / "train.py").write_text(text)
    (fixed,) = fixed_by_doctor(tmp_path / "train.py")
    new = fixed.after.decode()
    assert new.index("environ") < new.index("from torchrl") < new.index("from rlrepro") < new.index("buffer =")


def test_both_ends_of_lines_and_both_names_of_a_file(tmp_path):
    (tmp_path / "mixed.py").write_bytes(CACHE.replace("\n", "\r\n", 2).encode())
    (tmp_path / "train.py").write_text(CACHE)
    (tmp_path / "same.py").symlink_to("train.py")
    assert [each.path.name for each in fixed_files(examine([tmp_path], versions=OLD))] == ["same.py"]


@pytest.mark.parametrize("indent", [1, 2, None])
def test_the_rest_of_a_notebook_stays_as_it_was(tmp_path, indent):
    output = {"output_type": "stream", "name": "stdout", "text": "\ud800 \u2028"}
    cells = [
        {
            "cell_type": "code",
            "metadata": {},
            "outputs": [output],
            "execution_count": 1,
            "source": f"a = '\u2028'\n{CACHE}",
        }
    ]
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps({"cells": cells, "nbformat": 4}, indent=indent))
    (fixed,) = fixed_by_doctor(path)
    assert fixed.after.decode() == path.read_text().replace("slice_len=4)", "slice_len=4, cache_values=True)")


def test_a_file_that_has_changed_is_left_alone(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(CACHE)
    (fixed,) = fixed_by_doctor(path)
    path.write_text("print(1)\n")
    with pytest.raises(Changed, match="run again"):
        fixed.write()
    assert path.read_text() == "print(1)\n"


def test_a_link_stays_one(tmp_path):
    (tmp_path / "real.py").write_text(CACHE)
    (tmp_path / "train.py").symlink_to("real.py")
    (fixed,) = fixed_by_doctor(tmp_path / "train.py")
    fixed.write()
    assert (tmp_path / "train.py").is_symlink() and "cache_values=True" in (tmp_path / "real.py").read_text()


def test_the_diff_comes_first(tmp_path, run_cli):
    path = tmp_path / "train.py"
    path.write_text(CACHE)
    shown = run_cli("doctor", "--fix", "train.py", stdin=-3)
    assert shown.returncode == 1 and "+buffer = ReplayBuffer(" in shown.stdout
    assert "add --yes to write it" in shown.stdout
    assert path.read_text() == CACHE
    written = run_cli("doctor", "--fix", "--yes", "train.py")
    assert written.returncode == 0 and "wrote 1 file" in written.stdout
    assert "slice_len=4, cache_values=True)" in path.read_text()
    nothing = run_cli("doctor", "--fix", "--yes", "train.py")
    assert nothing.returncode == 0 and "no findings" in nothing.stdout
    assert run_cli("doctor", "--fix", "--format", "json").returncode == 2


def test_what_can_not_be_written_stays_as_it_was(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(CACHE)
    (fixed,) = fixed_by_doctor(path)
    (tmp_path / f".train.py.{os.getpid()}.part").mkdir()  # in the way of the new content, also for root
    with pytest.raises(OSError):
        fixed.write()
    assert path.read_text() == CACHE


def test_what_is_not_written_is_told_of(tmp_path, run_cli):
    encoding = """import gymnasium as gym
from torchrl.envs import GymEnv
space = gym.spaces.Discrete(5000)
env = GymEnv("Shop-v0")
"""
    (tmp_path / "shop.py").write_text(encoding)
    done = run_cli("doctor", "--fix", "--yes", ".")
    assert done.returncode == 1 and "decide yourself: shop.py:4:7 LA001" in done.stdout
    grows = CACHE.replace("buffer.sample()", "buffer.extend(rows)\n    buffer.sample()") + "rows = []\n"
    (tmp_path / "train.py").write_text(grows)
    done = run_cli("doctor", "--fix", "--yes", ".")
    assert done.returncode == 0 and "shop.py:4:7 LA001" in done.stdout and "add rlrepro to your project" in done.stdout
    assert "train.py:4" not in done.stdout.split("not fixed")[1]
