"""Does the doctor find what is there, and leave alone what only looks like it?"""

import json
import os
import random
import string
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlrepro.doctor import examine, finding
from rlrepro.doctor.finding import all_rules
from rlrepro.doctor.report import FORMATS, MEASURED, explain
from rlrepro.doctor.scan import UnknownCode, configuration
from rlrepro.doctor.versions import Versions

from .conftest import ROOT
from .doctor_corpus import DOUBTFUL, INNOCENT, TROUBLED
from .doctor_corpus_found import LIKELY, UNLIKELY

TROUBLED, INNOCENT = TROUBLED | LIKELY, INNOCENT | UNLIKELY
OLD = Versions({"tianshou": "==1.0.0", "torchrl": "==0.6.0"})


def examined(tmp_path, text, *, versions=OLD, name="train.py", **options):
    path = tmp_path / name
    path.write_text(textwrap.dedent(text))
    return examine([path], versions=versions, **options)


def codes(found):
    return {finding.code for finding in found.findings}


def versions_for(given):
    return Versions({name: f"=={release}" for name, release in given.items()})


@pytest.mark.parametrize("title", TROUBLED)
def test_what_is_there_is_found(tmp_path, title):
    expected, given, text = TROUBLED[title]
    assert codes(examined(tmp_path, text, versions=versions_for(given))) == expected


@pytest.mark.parametrize("title", INNOCENT)
def test_what_only_looks_like_it_is_left_alone(tmp_path, title):
    given, text = INNOCENT[title]
    assert codes(examined(tmp_path, text, versions=versions_for(given))) == set()


@pytest.mark.parametrize("title", DOUBTFUL)
def test_what_may_not_run_or_matter_has_low_confidence(tmp_path, title):
    code, files, change = DOUBTFUL[title]
    (tmp_path / ".git").mkdir()
    for written, expected in ((files, True), (change, False)):
        for name, text in written.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        findings = examine([tmp_path], select=[code]).findings
        assert len(findings) == 1 and (findings[0].confidence == "low") is expected


def test_a_line_has_a_finding_once_and_all_its_fixes(tmp_path):
    loaders = "DataLoader(TensorDataset(x), shuffle=True), DataLoader(TensorDataset(y), shuffle=True)"
    text = f"from torch.utils.data import DataLoader, TensorDataset\nfirst, second = {loaders}"
    assert [each.line for each in examined(tmp_path, text).findings] == [2]
    lists = "torch.tensor([np.array(s) for s in x]), torch.tensor([np.array(s) for s in y])"
    found = examined(tmp_path, f"import numpy as np\nimport torch\nfirst, second = {lists}")
    assert len(found.findings) == 1 and len(*found.edits.values()) == 2


def test_the_corpus_is_large_and_half_of_it_innocent():
    assert len(TROUBLED) + len(INNOCENT) >= 60 and len(INNOCENT) >= 30
    assert {code for expected, _, _ in TROUBLED.values() for code in expected} == {
        code for code, each in all_rules().items() if not each.live
    }


PPO = """\
from tianshou.policy import PPOPolicy
from networks import actor, critic
policy = PPOPolicy(actor=actor, critic=critic)
"""


def test_a_finding_has_its_place(tmp_path):
    (finding,) = examined(tmp_path, PPO).findings
    assert (finding.line, finding.column, finding.cell) == (3, 10, None)
    assert str(finding).startswith(f"{tmp_path}/train.py:3:10: TS001 tianshou 0.4.11 to 1.0.0 computes")


@pytest.mark.parametrize(
    "name, text, confidence",
    [
        ("requirements.txt", "tianshou==1.0.0", "high"),
        ("deep/requirements-dev.txt", "tianshou == 0.5.*  # both of them", "high"),
        ("requirements.txt", "tianshou>=0.5,<1.1", "high"),
        ("setup.py", "setup(install_requires=['numpy', 'tianshou~=0.5.0'])", "high"),
        ("setup.cfg", "[options]\ninstall_requires =\n    tianshou[envpool]==0.4.11", "high"),
        ("pyproject.toml", '[project]\ndependencies = ["tianshou<1.1,>=0.4.11"]', "high"),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntianshou = "^0.5"', "high"),
        ("env.yml", "dependencies:\n  - tianshou=0.5.1=py_0\n  - pip:\n    - gym==0.26", "high"),
        ("docker/environment.yaml", "  - pip:\n    - tianshou==0.5.1", "high"),
        ("Dockerfile", "RUN pip install 'tianshou==1.0.0'", "high"),
        ("poetry.lock", '[[package]]\nname = "tianshou"\nversion = "1.0.0"', "high"),
        ("requirements.txt", "tianshou>=1.1,<3", None),
        ("requirements.txt", "tianshou>=1.0", "low"),  # 1.1 is fine
        ("requirements.txt", "tianshou-extras==1.0.0\n# tianshou==1.0.0", "low"),
        ("requirements.txt", "", "low"),
    ],
)
def test_a_release_is_what_the_project_pins(tmp_path, name, text, confidence):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    (tmp_path / "train.py").write_text(PPO)
    findings = examine([tmp_path], select=["TS001"]).findings
    assert [each.confidence for each in findings] == ([confidence] if confidence else [])


def test_the_nearest_pin_counts(tmp_path):
    for folder, release in (("old", "1.0.0"), ("new", "1.1.0")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text(PPO)
        (tmp_path / folder / "requirements.txt").write_text(f"tianshou=={release}")
    (finding,) = examine([tmp_path], select=["TS001"]).findings
    assert finding.path.endswith("old/train.py") and "requirements.txt requires tianshou==1.0.0" in finding.message


@pytest.mark.parametrize(
    "line, codes_found",
    [
        ("from tianshou.algorithm import PPO", {"TS004"}),  # 2.x, and each 2.x that is known has it
        ("from tianshou.trainer import onpolicy_trainer", set()),
        ("from tianshou.utils import BasicLogger", set()),
        ("", set()),
    ],
)
def test_a_release_is_what_the_code_needs(tmp_path, line, codes_found):
    """Never what is installed beside the doctor, where tianshou 2.0.1 is."""
    (tmp_path / "train.py").write_text(f"{line}\nfrom tianshou.data import Collector\nc = Collector(p, e)")
    assert codes(examine([tmp_path], select=["TS004"])) == codes_found


def test_a_cell_that_installs_is_a_pin(tmp_path):
    (tmp_path / "a.ipynb").write_text(notebook(("code", "!pip install \\\n  tianshou==1.0.0"), ("code", PPO)))
    (finding,) = examine([tmp_path]).findings
    assert "a cell installs tianshou==1.0.0" in finding.message


def test_a_limit_in_a_module_beside_counts(tmp_path):
    sweep = "import multiprocessing\nfrom worker import work\nmultiprocessing.Pool(8).map(work, range(8))"
    work = "import torch\ndef work(seed):\n    loss(seed).backward()\n"
    (tmp_path / "sweep.py").write_text(sweep)
    (tmp_path / "worker.py").write_text(work)
    (finding,) = examine([tmp_path]).findings
    assert finding.code == "PT001" and "trains (worker.py:3)" in finding.message
    (tmp_path / "worker.py").write_text(work + "torch.set_num_threads(1)\n")
    assert codes(examine([tmp_path])) == set()
    (tmp_path / "worker.py").write_text(work)
    (tmp_path / "run.sh").write_text("OMP_NUM_THREADS=1 python sweep.py")
    assert codes(examine([tmp_path])) == set()


def test_work_is_followed_through_a_package(tmp_path):
    """An import of an import, a method of a base class, and an instance that another function makes."""
    package = tmp_path / "agents"
    package.mkdir()
    (package / "__init__.py").write_text("from .ppo import PPO\n")
    (package / "base.py").write_text("class Base:\n    def improve(self):\n        self.loss().backward()\n")
    (package / "ppo.py").write_text("import torch\nfrom agents.base import Base\nclass PPO(Base): ...\n")
    (tmp_path / "job.py").write_text("from agents import PPO\ndef job(seed):\n    agent = PPO()\n    agent.improve()\n")
    (tmp_path / "main.py").write_text(
        "from multiprocessing import Process\nimport job\nfor k in range(4):\n    Process(target=job.job).start()\n"
    )
    (finding,) = examine([tmp_path]).findings
    assert finding.path.endswith("main.py") and "trains (base.py:3)" in finding.message
    (package / "base.py").write_text("class Base:\n    def improve(self):\n        pass\n")
    assert codes(examine([tmp_path])) == set()


def test_all_codes_are_listed(run_cli):
    listed = run_cli("doctor", "--explain", "all").stdout
    assert [line.split()[0] for line in listed.splitlines()] == list(all_rules())


def notebook(*cells):
    return json.dumps({"cells": [{"cell_type": kind, "source": source} for kind, source in cells]})


def test_a_notebook_is_read_by_cells_with_its_magics(tmp_path):
    cells = [
        ("markdown", "PPOPolicy()"),
        (
            "code",
            [
                "%matplotlib inline\n",
                "!pip install tianshou\n",
                "from tianshou.policy import PPOPolicy\n",
                "PPOPolicy?",
            ],
        ),
        ("code", "%%bash\necho 'no Python"),
        ("code", "if True:\n    %time PPOPolicy(actor)\n    policy = PPOPolicy(actor)"),
    ]
    (tmp_path / "a.ipynb").write_text(notebook(*cells))
    (finding,) = examine([tmp_path], versions=OLD).findings
    assert (finding.cell, finding.line, finding.column) == (3, 3, 14) and "a.ipynb:cell 3:3:14" in str(finding)


@pytest.mark.parametrize("comment", ["# rlrepro: ignore", "# rlrepro: ignore[TS001]", "# rlrepro:ignore[LA001, TS001]"])
def test_a_line_can_be_ignored(tmp_path, comment):
    assert codes(examined(tmp_path, PPO.replace("critic)", f"critic)  {comment}"))) == set()
    assert codes(examined(tmp_path, PPO.replace("critic)", "critic)  # rlrepro: ignore[TR001]"))) == {"TS001"}


def test_codes_are_selected_and_ignored_by_their_beginning(tmp_path):
    assert codes(examined(tmp_path, PPO, select=["TS"])) == {"TS001"}
    assert codes(examined(tmp_path, PPO, select=["TR"])) == set()
    assert codes(examined(tmp_path, PPO, ignore=["TS001"])) == set()
    with pytest.raises(UnknownCode, match="no rule 'XX'; there are LA001"):
        examined(tmp_path, PPO, select=["XX"])


def test_the_project_says_what_it_wants(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.rlrepro]\nignore = ["TS"]\nexclude = ["old/*"]\n')
    assert configuration(tmp_path / "deep") == {"ignore": ["TS"], "exclude": ["old/*"]}
    (tmp_path / "pyproject.toml").write_text('[tool.rlrepro]\nignored = ["TS"]\n')
    with pytest.raises(ValueError, match=r"takes select, ignore and exclude, each a list of strings; found ignored"):
        configuration(tmp_path)


@pytest.mark.parametrize("text", ["[tool]\nrlrepro = 5", "[tool.rlrepro]\nexclude = [3]", "tool = 1", "[tool", "\xff"])
def test_settings_that_are_none_are_named(tmp_path, text):
    (tmp_path / "pyproject.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"pyproject\.toml"):
        configuration(tmp_path)


def test_any_tree_is_read(tmp_path):
    """Damaged, huge, looping, in other encodings: reported or left out with a word."""
    (tmp_path / "latin.py").write_bytes("# -*- coding: latin-1 -*-\n# é\n".encode("latin-1") + PPO.encode())
    (tmp_path / "bom.py").write_bytes(b"\xef\xbb\xbf" + PPO.encode())
    (tmp_path / "wrong.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "null.py").write_bytes(b"a = 1\x00")
    (tmp_path / "half.py").write_text("def f(:\n")
    (tmp_path / "deep.py").write_text("(" * 5000 + ")" * 5000)
    (tmp_path / "signs.py").write_text("x = " + "-" * 100_000 + "1")
    (tmp_path / "dots.py").write_text("from torchrl.data import SliceSampler\nx" + ".y" * 3000 + " = SliceSampler()\n")
    (tmp_path / "huge.py").write_text("a = 1\n" * 800_000)
    (tmp_path / "rot.py").write_text("# -*- coding: rot13 -*-\n")
    (tmp_path / "circle.py").symlink_to(tmp_path / "circle.py")
    (tmp_path / "half.ipynb").write_text('{"cells": [')
    (tmp_path / "none.ipynb").write_text("[]")
    (tmp_path / "odd.ipynb").write_text('{"cells": [{"cell_type": "code", "source": [1]}]}')
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "a.py").write_text(PPO)
    found = examine([tmp_path], versions=OLD)
    left = {Path(each.path).name: each.why for each in found.left_out}
    names = {"wrong", "null", "half", "deep", "signs", "huge", "gone", "pipe", "rot", "circle"}
    deep = {"dots.py"}  # too deep for some Pythons
    assert set(left) - deep == {f"{name}.py" for name in names} | {"half.ipynb", "none.ipynb", "odd.ipynb"}
    assert {Path(each.path).name for each in found.findings} - deep == {"latin.py", "bom.py"}
    assert found.read == 3 - ("dots.py" in left) and left["signs.py"] == "nested too deeply"
    assert left["huge.py"] == "larger than 4 MiB" and "line 1" in left["half.py"]
    with pytest.raises(FileNotFoundError, match="does not exist"):
        examine([tmp_path / "missing"])


def test_a_notebook_counts_without_its_outputs(tmp_path):
    cell = {"cell_type": "code", "source": PPO, "outputs": [{"text": "x" * (5 * 2**20)}]}
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [cell]}))
    assert codes(examine([tmp_path], versions=OLD)) == {"TS001"}


NEWER = """\
type Size = int
def first[T](items: list[T]) -> T:
    try:
        return items[0]
    except IndexError, TypeError:
        raise
"""


def test_newer_syntax_is_read_as_far_as_possible(tmp_path):
    (tmp_path / "train.py").write_text(NEWER + PPO)
    result = examine([tmp_path], versions=OLD)
    assert codes(result) == {"TS001"} and result.findings[0].line == 9
    assert all("read without lines that can't be parsed: 1" in each.why for each in result.left_out)
    assert not (result.left_out and result.edits)  # nothing is written into a file that was not understood
    (tmp_path / "train.py").write_text("print 'Python 2'\n" * 20)
    assert "can't be parsed as Python" in examine([tmp_path]).left_out[0].why


def test_a_test_is_nobodys_training_time(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "check.py").write_text("import torch\ntorch.autograd.set_detect_anomaly(True)")
    assert [each.confidence for each in examine([tmp_path]).findings] == ["low"]


def test_a_rule_that_fails_ends_nothing(tmp_path, monkeypatch):
    def broken(module, project):
        raise ZeroDivisionError("of a rule")
        yield

    rule = all_rules()["TS001"]
    monkeypatch.setitem(finding._rules, "TS001", replace(rule, check=broken))
    result = examined(tmp_path, PPO + "Normal.set_default_validate_args = False\n")
    assert codes(result) == {"TO003"} and "TS001 failed: ZeroDivisionError: of a rule" in result.left_out[0].why


def test_nothing_read_is_no_success(tmp_path, run_cli):
    (tmp_path / "bad.py").write_text("x = (\n1,,\n2)")
    done = run_cli("doctor", tmp_path)
    assert done.returncode == 2 and "0 files read, 1 not read in full" in done.stdout


def test_a_finding_is_printed_without_what_measures(tmp_path):
    """Neither torch nor what draws is loaded to say what a finding costs."""
    (tmp_path / "train.py").write_text("import torch\ntorch.autograd.set_detect_anomaly(True)")
    script = f"""if True:
    import sys
    from rlrepro.doctor import examine, finding
    from rlrepro.doctor.report import FORMATS
    print(FORMATS["text"](examine([{str(tmp_path)!r}])))
    sys.exit(",".join(sorted({{"torch", "gymnasium", "matplotlib", "pydantic", "numpy"}} & set(sys.modules))))
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "TO002" in done.stdout and done.stderr.strip() == ""


def test_nothing_is_run(tmp_path):
    text = f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()\nraise SystemExit"
    assert examined(tmp_path, text).read == 1
    assert not (tmp_path / "ran").exists()


ALPHABET = string.ascii_letters + string.digits + "()[]{}:=,.#'\"\\\n\t %!?*@"


@settings(max_examples=300, deadline=5000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(st.binary(max_size=400), st.text(ALPHABET, max_size=400).map(str.encode)),
    st.sampled_from([".py", ".ipynb"]),
)
def test_random_files_are_survived(tmp_path, content, suffix):
    path = tmp_path / f"random{suffix}"
    path.write_bytes(content)
    examine([path], versions=OLD)


def mutants(text, count, seed=0):
    """The text with pieces cut out, doubled, swapped or overwritten."""
    chance = random.Random(seed)
    for _ in range(count):
        pieces = list(text)
        for _ in range(chance.randint(1, 8)):
            at, size = chance.randrange(len(pieces)), chance.randint(1, 30)
            change = chance.choice(["cut", "double", "swap", "write", "end"])
            if change == "cut":
                del pieces[at : at + size]
            elif change == "double":
                pieces[at:at] = pieces[at : at + size]
            elif change == "swap":
                pieces[at : at + size] = reversed(pieces[at : at + size])
            elif change == "write":
                pieces[at : at + 1] = chance.choice(ALPHABET)
            else:
                del pieces[max(1, at) :]
            pieces = pieces or list(text)
        yield "".join(pieces)


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_mutated_texts_are_survived(tmp_path, count):
    """Python and notebooks; none takes seconds."""
    texts = [textwrap.dedent(text) for _, _, text in TROUBLED.values()]
    longest = 0.0
    for number, text in enumerate(texts):
        for suffix, whole in ((".py", text), (".ipynb", notebook(("code", text)))):
            path = tmp_path / f"mutant{suffix}"
            for mutant in mutants(whole, count // (2 * len(texts)) + 1, seed=number):
                path.write_text(mutant)
                start = time.perf_counter()
                examine([path], versions=OLD)
                longest = max(longest, time.perf_counter() - start)
    assert longest < 5


@pytest.fixture
def found(tmp_path):
    (tmp_path / "bad.py").write_text("x = (\n1,,\n2)")
    return examined(tmp_path, PPO), examine([tmp_path], versions=OLD)


def test_every_format_says_the_same(found):
    _, both = found
    text = FORMATS["text"](both)
    assert "train.py:3:10: TS001" in text and "fix: Install tianshou 1.1.0" in text
    assert "bad.py: can't be parsed as Python" in text and "1 files read, 1 not read in full, 1 finding;" in text
    answer = json.loads(FORMATS["json"](both))
    (entry,), (left,) = answer["findings"], answer["left_out"]
    assert entry["code"] == "TS001" and entry["line"] == 3 and {"path", "message", "fix", "chapter"} <= set(entry)
    assert left["path"].endswith("bad.py") and answer["read"] == 1
    sarif = json.loads(FORMATS["sarif"](both))
    (run,) = sarif["runs"]
    assert sarif["version"] == "2.1.0" and run["tool"]["driver"]["rules"][0]["id"] == "TS001"
    assert run["results"][0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 3, "startColumn": 10}
    assert run["results"][0]["level"] == "error"
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert "can't be parsed" in note["message"]["text"] and "title=not read::can't be parsed" in FORMATS["github"](both)
    assert FORMATS["github"](both).startswith("::error file=") and "line=3,col=10,title=TS001::" in FORMATS["github"](
        both
    )


def test_every_rule_is_explained_with_what_was_measured():
    for code, rule in all_rules().items():
        page = explain(rule)
        assert page.startswith(f"{code}: {rule.title}") and rule.fix in page and len(rule.why) > 60
        assert (ROOT / "notebooks" / f"{rule.chapter}.ipynb").exists()
        assert ("Measured:" in page) or not rule.claims


def test_what_was_measured_is_what_the_reference_records_say():
    from rlrepro.course.rule_costs import measured  # which needs the course

    assert json.loads(MEASURED.read_text()) == measured(), "write it anew: python -m rlrepro.course.rule_costs"


def test_the_command_line_answers_people_and_programs(run_cli, tmp_path):
    (tmp_path / "train.py").write_text(PPO)
    (tmp_path / "requirements.txt").write_text("tianshou==1.0.0")
    done = run_cli("doctor", tmp_path)
    assert done.returncode == 1 and "TS001" in done.stdout
    done = run_cli("doctor", tmp_path, "--format", "json")
    assert {"code", "path", "line", "message"} <= set(json.loads(done.stdout)["findings"][0])
    assert run_cli("doctor", tmp_path, "--ignore", "TS001").returncode == 0
    assert run_cli("doctor", tmp_path / "none").returncode == 2
    assert "no rule 'XX'" in run_cli("doctor", tmp_path, "--select", "XX").stderr
    assert run_cli("doctor", "--explain", "TR004").stdout.startswith("TR004: a cache that every write")
    (tmp_path / "pyproject.toml").write_text('[tool.rlrepro]\nignore = ["TS"]')
    assert run_cli("doctor", tmp_path).returncode == 0


def test_installed_libraries_are_read_without_a_crash():
    import tianshou

    folder = Path(tianshou.__file__).parent
    found = examine([folder], versions=OLD)
    assert found.read > 30 and not found.left_out
