"""The contract of every case: of each package in `rlrepro/cases`, except `common`."""

import ast
import dataclasses
import inspect
import re
from pathlib import Path

import nbformat
import pytest

from rlrepro.cases import all_cases, case_of
from rlrepro.cases.common.bench import settings_for
from rlrepro.evidence import read_records
from rlrepro.evidence.schema import declared
from rlrepro.lab.units import UNITS

from .conftest import ROOT

CASES = all_cases()
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: name_of(case))


def name_of(case):
    return case.__name__.rpartition(".")[2]


def notebook_cells(case):
    return nbformat.read(ROOT / "notebooks" / f"{case.CHAPTER}.ipynb", as_version=4).cells


def sections(case):
    """The headings of the notebook, with the source of the code cells below them."""
    heading, code = None, {}
    for cell in notebook_cells(case):
        if cell.cell_type == "markdown":
            for heading in re.findall(r"^#+ (.+)$", cell.source, re.MULTILINE):
                code[heading] = ""
        elif cell.cell_type == "code":
            code[heading] = code.get(heading, "") + cell.source + "\n"
    return code


def public_functions(module):
    """The public functions that a module defines itself."""
    functions = vars(module).items()
    return {
        name: value
        for name, value in functions
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }


def added_names(case):
    """(names in calls of `bench.add` or `book.add`; patterns of computed names: of an f-string, or, where the name is
    an expression, any string of a file that produces measurements)."""
    literal, patterns, strings, computed = set(), set(), set(), False
    for path in Path(case.__file__).parent.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        if path.name != "records.py":
            strings |= {
                re.escape(node.value) for node in nodes if isinstance(node, ast.Constant) and type(node.value) is str
            }
        for call in nodes:
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("bench.add", "bench.add_ratio", "book.add"):
                name = call.args[0]
                if isinstance(name, ast.Constant):
                    literal.add(name.value)
                elif isinstance(name, ast.JoinedStr):
                    patterns.add(
                        "".join(
                            getattr(part, "value", "") if isinstance(part, ast.Constant) else r"\w+"
                            for part in name.values
                        )
                    )
                else:
                    computed = True
    return literal, patterns | (strings if computed else set())


def test_cases_are_found_by_their_chapter():
    assert len({case.CHAPTER for case in CASES}) == len(CASES) >= 6
    assert all(case_of(case.CHAPTER) is case for case in CASES) and case_of("no such chapter") is None


@each_case
def test_the_chapter_is_a_notebook_that_makes_a_bench(case):
    code = "\n".join(cell.source for cell in notebook_cells(case) if cell.cell_type == "code")
    assert re.search(r"\bBench\(", code) and not re.search(r"\b(bench|book)\.add(_ratio)?\(", code)


@each_case
def test_profiles_are_three_settings_of_one_kind(case):
    assert list(case.SETTINGS) == ["tiny", "smoke", "full"]
    assert {type(settings) for settings in case.SETTINGS.values()} == {case.Settings}
    assert dataclasses.is_dataclass(case.Settings) and case.Settings.__dataclass_params__.frozen


@each_case
def test_a_gpu_replaces_settings_that_exist(case):
    on_cuda = getattr(case, "ON_CUDA", {})
    assert set(on_cuda) <= set(case.SETTINGS)
    for profile, settings in case.SETTINGS.items():
        assert settings_for(case, profile, "cpu") == settings
        replaced = settings_for(case, profile, "cuda:0")  # raises TypeError for a name that settings don't have
        assert replaced == dataclasses.replace(settings, **on_cuda.get(profile, {}))


@each_case
def test_claims_name_the_section_that_measures_them(case):
    measured = {heading for heading, code in sections(case).items() if re.search(r"\w\(bench[,)]", code)}
    for claim in case.CLAIMS:
        assert claim.chapter == case.CHAPTER, claim.id
        assert claim.section in measured, (
            f"{claim.id}: no code cell under {claim.section!r} calls a function with `bench`; under these one does: "
            f"{', '.join(sorted(measured))}"
        )


@each_case
def test_records_are_declared_once_in_a_known_unit(case):
    names = [quantity.name for quantity in case.RECORDS]
    assert names and len(set(names)) == len(names)
    assert {quantity.unit for quantity in case.RECORDS} <= set(UNITS)
    assert not [q.name for q in case.RECORDS if len({*q.keys, *q.optional}) < len(q.keys) + len(q.optional)]


@each_case
def test_records_are_declared_and_declared_records_are_added(case):
    names = {quantity.name for quantity in case.RECORDS}
    literal, patterns = added_names(case)
    assert literal <= names, "added, but not in RECORDS"
    never_added = [name for name in names - literal if not any(re.fullmatch(pattern, name) for pattern in patterns)]
    assert not never_added, "in RECORDS, but never added"


@each_case
def test_measurements_take_a_bench_and_plots_take_records(case):
    for module, parameter in ((case.measure, "bench"), (case.plots, "records")):
        functions = public_functions(module)
        assert functions
        for name, function in functions.items():
            assert next(iter(inspect.signature(function).parameters), None) == parameter, name


@each_case
def test_reference_records_are_as_declared(case):
    paths = sorted(ROOT.glob(f"results/*/{case.CHAPTER}.jsonl"))
    assert paths, (
        f"no records of {case.CHAPTER} in results/*/: copy there what `rlrepro reproduce --profile full` wrote"
    )
    for path in paths:
        for record in read_records(path):
            prefix, _, name = record.name.partition(".")
            quantity = declared(case.RECORDS, name)
            quantity.check(record.setting)
            assert (prefix, record.unit) == (name_of(case), quantity.unit), path
