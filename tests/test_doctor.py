"""Does the doctor find what is there, and leave alone what only looks like it?"""

import json
import os
import random
import string
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packaging.version import Version

from rlrepro.doctor import examine
from rlrepro.doctor.examination import UnknownCode, configuration
from rlrepro.doctor.finding import all_rules
from rlrepro.doctor.report import FORMATS, explain
from rlrepro.doctor.versions import Versions, versions_of

from .conftest import ROOT
from .doctor_corpus import INNOCENT, TROUBLED

OLD = Versions({"tianshou": Version("1.0.0"), "torchrl": Version("0.6.0")})


def examined(tmp_path, text, *, versions=OLD, name="train.py", **options):
    path = tmp_path / name
    path.write_text(textwrap.dedent(text))
    return examine([path], versions=versions, **options)


def codes(found):
    return {finding.code for finding in found.findings}


def versions_for(given):
    return Versions({"tianshou": None, "torchrl": None} | {name: Version(each) for name, each in given.items()})


@pytest.mark.parametrize("title", TROUBLED)
def test_what_is_there_is_found(tmp_path, title):
    expected, given, text = TROUBLED[title]
    assert codes(examined(tmp_path, text, versions=versions_for(given))) == expected


@pytest.mark.parametrize("title", INNOCENT)
def test_what_only_looks_like_it_is_left_alone(tmp_path, title):
    given, text = INNOCENT[title]
    assert codes(examined(tmp_path, text, versions=versions_for(given))) == set()


def test_the_corpus_is_large_and_half_of_it_innocent():
    assert len(TROUBLED) + len(INNOCENT) >= 60 and len(INNOCENT) >= 30
    assert {code for expected, _, _ in TROUBLED.values() for code in expected} == {
        code for code, each in all_rules().items() if not each.live
    }


PPO = """\
from tianshou.policy import PPOPolicy

policy = PPOPolicy(actor=actor, critic=critic)
"""


def test_a_finding_has_its_place(tmp_path):
    (finding,) = examined(tmp_path, PPO).findings
    assert (finding.line, finding.column, finding.cell) == (3, 10, None)
    assert str(finding).startswith(f"{tmp_path}/train.py:3:10: TS001 tianshou 1.0.0 computes")


@pytest.mark.parametrize(
    "required, told",
    [
        ("tianshou==1.0.0", "tianshou 1.0.0 computes"),
        ("tianshou>=1.1,<3", None),  # 2.0.1, which is installed here, has other problems
        ("tianshou>=0.5,<1.1", "see `pip show tianshou`"),  # not what is installed here
        ("", None),
    ],
)
def test_what_is_installed_here_counts_where_the_project_allows_it(tmp_path, required, told):
    (tmp_path / "requirements.txt").write_text(required)
    (tmp_path / "train.py").write_text(PPO)
    found = examine([tmp_path], select=["TS001"]).findings
    assert [told in each.message for each in found] == ([True] if told else [])


def test_where_a_release_is_known_from(tmp_path):
    (tmp_path / "train.py").write_text("from tianshou.data import Collector\nc = Collector(p, e)")
    (finding,) = examine([tmp_path]).findings
    assert finding.code == "TS004" and "tianshou 2.0.1 (installed here)" in finding.message


def test_a_limit_in_a_module_beside_counts(tmp_path):
    sweep = "import multiprocessing, torch\nfrom worker import work\nmultiprocessing.Pool(8).map(work, range(8))"
    (tmp_path / "sweep.py").write_text(sweep)
    (tmp_path / "worker.py").write_text("import torch\n")
    assert codes(examine([tmp_path])) == {"PT001"}
    (tmp_path / "worker.py").write_text("import torch\ntorch.set_num_threads(1)\n")
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


def test_pins_of_the_project_count_more_than_what_is_installed(tmp_path):
    (tmp_path / "requirements.txt").write_text("tianshou==0.5.0  # old\nnonsense ===\n-r other.txt\n")
    (tmp_path / "train.py").write_text(PPO)
    assert versions_of([tmp_path])["tianshou"] == Version("0.5.0")
    assert codes(examine([tmp_path])) == {"TS001"}
    (tmp_path / "requirements.txt").write_text("tianshou==1.1.0\n")
    assert codes(examine([tmp_path])) == set()


def test_the_project_says_what_it_wants(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.rlrepro]\nignore = ["TS"]\nexclude = ["old/*"]\n')
    assert configuration(tmp_path / "deep") == {"ignore": ["TS"], "exclude": ["old/*"]}
    (tmp_path / "pyproject.toml").write_text('[tool.rlrepro]\nignored = ["TS"]\n')
    with pytest.raises(ValueError, match="lists select, ignore and exclude, found ignored"):
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
    (tmp_path / "huge.py").write_text("a = 1\n" * 400_000)
    (tmp_path / "half.ipynb").write_text('{"cells": [')
    (tmp_path / "none.ipynb").write_text("[]")
    (tmp_path / "odd.ipynb").write_text('{"cells": [{"cell_type": "code", "source": [1]}]}')
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "a.py").write_text(PPO)
    found = examine([tmp_path], versions=OLD)
    assert {Path(each.path).name for each in found.findings} == {"latin.py", "bom.py"}
    left = {Path(each.path).name: each.why for each in found.left_out}
    names = {"wrong", "null", "half", "deep", "signs", "dots", "huge", "gone", "pipe"}
    assert set(left) == {f"{name}.py" for name in names} | {"half.ipynb", "none.ipynb", "odd.ipynb"}
    assert found.read == 2 and left["signs.py"] == left["dots.py"] == "nested too deeply"
    assert left["huge.py"] == "larger than 2 MiB" and "line 1" in left["half.py"]
    with pytest.raises(FileNotFoundError, match="there is no"):
        examine([tmp_path / "missing"])


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


def test_mutated_texts_are_survived(tmp_path):
    """Ten thousand of them, Python and notebooks; none takes seconds."""
    texts = [textwrap.dedent(text) for _, _, text in TROUBLED.values()]
    longest = 0.0
    for number, text in enumerate(texts):
        for suffix, whole in ((".py", text), (".ipynb", notebook(("code", text)))):
            path = tmp_path / f"mutant{suffix}"
            for mutant in mutants(whole, 10_000 // (2 * len(texts)) + 1, seed=number):
                path.write_text(mutant)
                start = time.perf_counter()
                examine([path], versions=OLD)
                longest = max(longest, time.perf_counter() - start)
    assert longest < 5


@pytest.fixture
def found(tmp_path):
    (tmp_path / "bad.py").write_text("def f(:")
    return examined(tmp_path, PPO), examine([tmp_path], versions=OLD)


def test_every_format_says_the_same(found):
    _, both = found
    text = FORMATS["text"](both)
    assert "train.py:3:10: TS001" in text and "cure: Install tianshou 1.1.0" in text
    assert "bad.py: left out, no Python that can be parsed" in text and "1 files read, 1 left out, 1 finding;" in text
    (entry,) = json.loads(FORMATS["json"](both))
    assert entry["code"] == "TS001" and entry["line"] == 3 and {"path", "message", "cure", "chapter"} <= set(entry)
    sarif = json.loads(FORMATS["sarif"](both))
    (run,) = sarif["runs"]
    assert sarif["version"] == "2.1.0" and run["tool"]["driver"]["rules"][0]["id"] == "TS001"
    assert run["results"][0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 3, "startColumn": 10}
    assert run["results"][0]["level"] == "error"
    assert FORMATS["github"](both).startswith("::error file=") and "line=3,col=10,title=TS001::" in FORMATS["github"](
        both
    )


def test_every_rule_is_explained_with_what_was_measured():
    for code, rule in all_rules().items():
        page = explain(rule)
        assert page.startswith(f"{code}: {rule.title}") and rule.cure in page and len(rule.why) > 60
        assert (ROOT / "notebooks" / f"{rule.chapter}.ipynb").exists()
        assert ("Measured:" in page) == bool(rule.claims)
    assert "Measured" not in explain(all_rules()["TS001"], ROOT / "nowhere")


def test_the_command_line_answers_people_and_programs(run_cli, tmp_path):
    (tmp_path / "train.py").write_text(PPO)
    (tmp_path / "requirements.txt").write_text("tianshou==1.0.0")
    done = run_cli("doctor", tmp_path)
    assert done.returncode == 1 and "TS001" in done.stdout
    done = run_cli("doctor", tmp_path, "--format", "json")
    assert {"code", "path", "line", "message"} <= set(json.loads(done.stdout)[0])
    assert run_cli("doctor", tmp_path, "--ignore", "TS001").returncode == 0
    assert run_cli("doctor", tmp_path / "none").returncode == 2
    assert "no rule 'XX'" in run_cli("doctor", tmp_path, "--select", "XX").stderr
    assert run_cli("doctor", "--explain", "TR004").stdout.startswith("TR004: a cache that each write")
    (tmp_path / "pyproject.toml").write_text('[tool.rlrepro]\nignore = ["TS"]')
    assert run_cli("doctor", tmp_path).returncode == 0


def test_installed_libraries_are_read_without_a_crash():
    import tianshou

    folder = Path(tianshou.__file__).parent
    found = examine([folder], versions=OLD)
    assert found.read > 30 and not found.left_out
