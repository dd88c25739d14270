"""Every file and notebook is read as far as possible, and none is run."""

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

from rlrepro.doctor import examine

from .doctor_corpus import TROUBLED
from .doctor_texts import OLD, PPO, codes, examined, notebook


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


@pytest.mark.parametrize(
    "cell", ["%%bash\nif true; then\n  ls\nfi", "%%writefile a.py\ndef f():\n    pass", "x = (1 2\n" * 20]
)
def test_a_cell_that_is_not_python_does_not_hide_the_others(tmp_path, cell):
    (tmp_path / "a.ipynb").write_text(notebook(("code", cell), ("code", PPO)))
    report = examine([tmp_path], versions=OLD)
    assert [finding.cell for finding in report.findings] == [1]
    assert [file.why for file in report.left_out] == ["read without lines that can't be parsed: cell 0"] * (
        "1 2" in cell
    )


def test_code_below_a_magic_that_runs_it_is_read(tmp_path):
    (tmp_path / "a.ipynb").write_text(notebook(("code", "%%time\nfor i in range(3):\n    print(i)\n" + PPO)))
    assert codes(examine([tmp_path], versions=OLD)) == {"TS001"}


def test_a_folder_of_environments_is_read_and_one_of_packages_is_not(tmp_path):
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "train.py").write_text("# coding: future_fstrings\n" + PPO)
    assert codes(examine([tmp_path], versions=OLD)) == {"TS001"}
    (tmp_path / "env" / "pyvenv.cfg").touch()
    assert examine([tmp_path], versions=OLD).read == 0


def test_any_tree_is_read(tmp_path):
    """Files that are damaged, huge, looping or in other encodings are read or left out with a reason."""
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
    report = examine([tmp_path], versions=OLD)
    left_out = {Path(entry.path).name: entry.why for entry in report.left_out}
    names = {"wrong", "null", "half", "deep", "signs", "huge", "gone", "pipe", "rot", "circle"}
    deep = {"dots.py"}  # too deep for some Pythons
    assert set(left_out) - deep == {f"{name}.py" for name in names} | {"half.ipynb", "none.ipynb", "odd.ipynb"}
    assert {Path(entry.path).name for entry in report.findings} - deep == {"latin.py", "bom.py"}
    assert report.read == 3 - ("dots.py" in left_out) and left_out["signs.py"] == "nested too deeply"
    assert left_out["huge.py"] == "larger than 4 MiB" and "line 1" in left_out["half.py"]
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
    assert all("read without lines that can't be parsed: 1" in entry.why for entry in result.left_out)
    assert not (result.left_out and result.edits)  # nothing is written into a file that was not understood
    (tmp_path / "train.py").write_text("print 'Python 2'\n" * 20)
    assert "can't be parsed as Python" in examine([tmp_path]).left_out[0].why


def test_the_examined_code_is_not_run(tmp_path):
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
    rng = random.Random(seed)
    for _ in range(count):
        pieces = list(text)
        for _ in range(rng.randint(1, 8)):
            position, size = rng.randrange(len(pieces)), rng.randint(1, 30)
            change = rng.choice(["cut", "double", "swap", "write", "end"])
            if change == "cut":
                del pieces[position : position + size]
            elif change == "double":
                pieces[position:position] = pieces[position : position + size]
            elif change == "swap":
                pieces[position : position + size] = reversed(pieces[position : position + size])
            elif change == "write":
                pieces[position : position + 1] = rng.choice(ALPHABET)
            else:
                del pieces[max(1, position) :]
            pieces = pieces or list(text)
        yield "".join(pieces)


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_mutated_texts_are_survived(tmp_path, count):
    """Python and notebooks; no text takes longer than 5 seconds."""
    texts = [textwrap.dedent(text) for _, _, text in TROUBLED.values()]
    longest = 0.0
    for number, text in enumerate(texts):
        for suffix, source in ((".py", text), (".ipynb", notebook(("code", text)))):
            path = tmp_path / f"mutant{suffix}"
            for mutant in mutants(source, count // (2 * len(texts)) + 1, seed=number):
                path.write_text(mutant)
                start = time.perf_counter()
                examine([path], versions=OLD)
                longest = max(longest, time.perf_counter() - start)
    assert longest < 5


def test_installed_libraries_are_read_without_a_crash():
    import tianshou

    folder = Path(tianshou.__file__).parent
    report = examine([folder], versions=OLD)
    assert report.read > 30 and not report.left_out
