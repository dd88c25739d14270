"""The project as a whole: environments that agree, imports in one direction, a quick import."""

import ast
import re
import subprocess
import sys
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import rlrepro
from rlrepro import metadata as project
from rlrepro.cli import PYTHONS

from .conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NOT_NOUNS = {"each", "found", "there", "told", "said", "who", "how", "which", "asked", "made", "given", "taken"}
LOCK = dict(line.split("==") for line in (ROOT / "requirements.lock").read_text().splitlines() if "==" in line)


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def declared():
    """The dependencies of the base and of all extras."""
    extras = PROJECT["project"]["optional-dependencies"].values()
    return [*PROJECT["project"]["dependencies"], *(line for extra in extras for line in extra)]


def course_pythons(specifier):
    return [f"3.{minor}" for minor in range(30) if SpecifierSet(specifier).contains(f"3.{minor}")]


def test_conda_installs_the_same_as_make():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, _, pip = environment["dependencies"]
    assert list(PYTHONS) == course_pythons(python.removeprefix("python"))
    assert pip["pip"] == ["-r requirements.lock", "--editable ."]


def test_the_lock_holds_each_dependency_in_its_range():
    locked = {normal(name): version for name, version in LOCK.items()}
    for requirement in map(Requirement, [*declared(), *PROJECT["dependency-groups"]["dev"]]):
        if requirement.name != "rlrepro" and not requirement.marker:
            assert requirement.specifier.contains(locked[normal(requirement.name)]), requirement


def test_each_dependency_has_a_comment_on_its_purpose():
    lines = re.findall(r'^  "[a-z][\w.-]*[\[<>=!].*$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert len(lines) == len([*declared(), *PROJECT["dependency-groups"]["dev"]])
    assert all(re.search(r'",\s+# \S', line) for line in lines)


def test_import_loads_nothing_heavy():
    packages = "rlrepro, rlrepro.lab, rlrepro.fixes, rlrepro.fit"
    script = f"import {packages}, sys; print({{'torch', 'tianshou', 'numpy'}} & set(sys.modules))"
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "set()"


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield from (f"{base}{'' if base.endswith('.') else '.'}{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize(
    "files, forbidden",
    [
        ("fixes/**/*.py", r"rlrepro|\.\."),
        ("lab/*.py", r"rlrepro(?!\.lab|\.metadata)|\.\.|tianshou|torchrl|stable_baselines3"),
        ("evidence/**/*.py", r"rlrepro\.(?!evidence|lab|metadata)"),
        ("fit/*.py", r"rlrepro\.(?!lab|fit|fixes)|\.\."),
        ("doctor/**/*.py", r"rlrepro\.(?!doctor|lab\.(units|garbage_collector|lazy_imports)|evidence|metadata)"),
        ("cases/**/*.py", r"rlrepro\.(?!lab|evidence|fixes|fit|doctor|cases)"),
        ("course/exercises/*.py", r"rlrepro\.(?!course\.exercises|lab|evidence|fit|fixes|cases|doctor)"),
        ("course/widgets.py", r"rlrepro\.(?!lab|fit|evidence\.figures)"),
        ("course/diagrams.py", r"rlrepro\.(?!evidence\.figures)"),
    ],
)
def test_a_package_imports_only_those_below_it(files, forbidden):
    paths = list((ROOT / "rlrepro").glob(files))
    assert paths
    for path in paths:
        assert not [name for name in imports(path) if re.match(forbidden, name)], path


def test_only_the_command_line_imports_the_site():
    for path in (ROOT / "rlrepro").rglob("*.py"):
        if path.parent.name != "site" and path.name != "cli.py":
            assert not [name for name in imports(path) if name.startswith("rlrepro.course.site")], path


def sources():
    return [path for folder in ("rlrepro", "tests") for path in (ROOT / folder).rglob("*.py")]


def test_files_are_small():
    for path in sources():
        assert len(path.read_text().splitlines()) <= 250, path


def test_names_of_variables_are_nouns():
    for path in sources():
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        names |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        assert not names & NOT_NOUNS, path


def test_the_projects_address_is_the_same_everywhere():
    address = PROJECT["project"]["urls"]["Repository"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["repository-code"] == address
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        assert address in path.read_text(), path


def test_the_version_is_the_same_everywhere():
    assert rlrepro.__version__ == PROJECT["project"]["version"]


def test_the_pythons_of_the_course_are_the_same_everywhere():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == list(PYTHONS)


def test_the_pythons_of_the_base_are_the_same_everywhere():
    prefix = "Programming Language :: Python :: 3."
    named = [
        int(classifier.removeprefix(prefix))
        for classifier in PROJECT["project"]["classifiers"]
        if classifier.startswith(prefix)
    ]
    supported = SpecifierSet(PROJECT["project"]["requires-python"])
    assert named == list(range(named[0], named[-1] + 1))
    assert supported.contains(f"3.{named[0]}") and not supported.contains(f"3.{named[0] - 1}")


def test_an_extra_includes_the_dependencies_of_its_extras():
    course = {Requirement(line).name for line in project.requirements("course")}
    assert {"torch", "gymnasium", "loky", "psutil", "papermill", "click"} <= course and "rlrepro" not in course
    fit = {Requirement(line).name for line in project.requirements("fit")}
    assert {"torch", "click", "gymnasium"} <= fit and not {"papermill", "loky"} & fit
    parallel = {Requirement(line).name for line in PROJECT["project"]["optional-dependencies"]["parallel"]}
    assert {"loky", "numpy"} <= parallel  # numpy is for table and plot


def test_the_changelog_has_this_version():
    assert re.search(rf"^## {re.escape(rlrepro.__version__)}$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_a_checkout_that_is_not_installed_has_the_same_metadata(uninstalled):
    script = "from rlrepro.metadata import *; print(repr((address(), requirements())))"
    address, requirements = ast.literal_eval(uninstalled("-c", script).stdout)
    assert address == project.address() == PROJECT["project"]["urls"]["Repository"]
    assert {*map(Requirement, requirements)} == {*map(Requirement, project.requirements())}
