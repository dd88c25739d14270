"""Each folder of rlrepro/fixes, copied alone into an empty project, imports and passes its own tests."""

import os
import shutil
import subprocess
import sys

import pytest

from .conftest import ROOT

FIXES = ROOT / "rlrepro" / "fixes"
PRODUCTS = sorted(path.parent.name for path in FIXES.glob("*/__init__.py"))
LINES = 1600  # at most, of a folder with its subfolders
WITHOUT_RLREPRO = """
import sys
sys.modules["rlrepro"] = None  # to import it is an error
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


def test_all_products_are_there():
    assert PRODUCTS == [
        "ensemble_ppo",
        "incremental_nan_check",
        "large_actions",
        "patient_parallel_env",
        "rllib_value_pass",
        "slice_sampler",
        "sweep",
        "tianshou",
        "train_many",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("product", PRODUCTS)
def test_a_folder_passes_its_own_tests_alone(product, tmp_path):
    name = "chunked_tianshou" if product == "tianshou" else product
    shutil.copytree(FIXES / product, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    completed = subprocess.run(
        [sys.executable, "-c", WITHOUT_RLREPRO, name],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},  # networks are small, and other tests may run
        capture_output=True,
        text=True,
    )
    assert completed.returncode == 0 and " passed" in completed.stdout, (
        completed.stdout[-3000:] + completed.stderr[-1000:]
    )


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_folder_is_short(product):
    lines = sum(
        len(path.read_text().splitlines())
        for path in (FIXES / product).rglob("*.py")
        if not path.name.startswith("test_")
    )
    assert lines <= LINES


def test_a_folder_that_hides_its_library_says_so(tmp_path):
    shutil.copytree(FIXES / "tianshou", tmp_path / "tianshou")
    completed = subprocess.run([sys.executable, "-c", "import tianshou"], cwd=tmp_path, capture_output=True, text=True)
    assert "hides the library tianshou" in completed.stderr


def test_a_file_of_a_product_does_not_hide_the_function_it_is_named_after():
    script = "import rlrepro.fixes.train_many.threads; from rlrepro.fixes import train_many; train_many.__call__"
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.slow
def test_everything_that_can_be_imported_is_imported_at_once():
    script = "from rlrepro.fixes import *; in_chunks; import pydoc, rlrepro; pydoc.render_doc(rlrepro.fixes)"
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
