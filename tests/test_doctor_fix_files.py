"""rlrepro doctor --fix: which files it writes, which it leaves alone, and what it reports."""

import json
import os
import stat

import pytest

from rlrepro.doctor import examine
from rlrepro.doctor.autofix import Changed, fixed_files

from .doctor_texts import OLD
from .test_doctor_fix import CACHE, fixed_by_doctor


@pytest.mark.parametrize(
    "encoding, newline", [("utf-8", "\n"), ("utf-8", "\r\n"), ("utf-8-sig", "\n"), ("latin-1", "\n")]
)
def test_encodings_line_endings_and_permissions_stay(tmp_path, encoding, newline):
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
    notebook = json.loads(path.read_text())
    changed = notebook["cells"][1]["source"]
    assert isinstance(changed, list) is as_list
    assert "".join(changed) == source.replace("slice_len=4)", "slice_len=4, cache_values=True)")
    notebook["cells"][1]["source"] = cells[1]["source"]
    assert notebook == {"cells": cells, "metadata": {"a": 1}, "nbformat": 4, "nbformat_minor": 5}


def test_mixed_line_endings_and_both_names_of_a_file(tmp_path):
    (tmp_path / "mixed.py").write_bytes(CACHE.replace("\n", "\r\n", 2).encode())
    (tmp_path / "train.py").write_text(CACHE)
    (tmp_path / "same.py").symlink_to("train.py")
    assert [file.path.name for file in fixed_files(examine([tmp_path], versions=OLD))] == ["same.py"]


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


def test_a_symlink_stays_one(tmp_path):
    (tmp_path / "real.py").write_text(CACHE)
    (tmp_path / "train.py").symlink_to("real.py")
    (fixed,) = fixed_by_doctor(tmp_path / "train.py")
    fixed.write()
    assert (tmp_path / "train.py").is_symlink() and "cache_values=True" in (tmp_path / "real.py").read_text()


def test_the_diff_comes_first(tmp_path, run_cli):
    path = tmp_path / "train.py"
    path.write_text(CACHE)
    preview = run_cli("doctor", "--fix", "train.py", stdin=-3)
    assert preview.returncode == 1 and "+buffer = ReplayBuffer(" in preview.stdout
    assert "add --yes to write the changes" in preview.stdout
    assert path.read_text() == CACHE
    confirmed = run_cli("doctor", "--fix", "--yes", "train.py")
    assert confirmed.returncode == 0 and "wrote 1 file" in confirmed.stdout
    assert "slice_len=4, cache_values=True)" in path.read_text()
    repeated = run_cli("doctor", "--fix", "--yes", "train.py")
    assert repeated.returncode == 0 and "no findings" in repeated.stdout
    assert run_cli("doctor", "--fix", "--format", "json").returncode == 2


def test_a_file_that_can_not_be_written_stays_as_it_was(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(CACHE)
    (fixed,) = fixed_by_doctor(path)
    (tmp_path / f".train.py.{os.getpid()}.part").mkdir()  # in the way of the new content, also for root
    with pytest.raises(OSError):
        fixed.write()
    assert path.read_text() == CACHE


def test_findings_without_a_fix_are_reported(tmp_path, run_cli):
    needs_decision = """import gymnasium as gym
from torchrl.envs import GymEnv
space = gym.spaces.Discrete(5000)
env = GymEnv("Shop-v0")
"""
    (tmp_path / "shop.py").write_text(needs_decision)
    result = run_cli("doctor", "--fix", "--yes", ".")
    assert result.returncode == 1 and "fix by hand: shop.py:4:7 LA001" in result.stdout
    grows = CACHE.replace("buffer.sample()", "buffer.extend(rows)\n    buffer.sample()") + "rows = []\n"
    (tmp_path / "train.py").write_text(grows)
    result = run_cli("doctor", "--fix", "--yes", ".")
    assert (
        result.returncode == 1
        and "shop.py:4:7 LA001" in result.stdout
        and "add rlrepro to your project" in result.stdout
    )
    assert "train.py:4" not in result.stdout.split("not fixed")[1]
