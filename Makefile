SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Many processes start here, and each would compile what it imports again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON  ?= python3
PROFILE ?= smoke
DEVICE  ?= auto
ONLY    ?=
LAB_ARGS ?=
RUN     ?= runs/latest
VENV    := .venv
BIN     := $(VENV)/bin
READY   := $(VENV)/ready

.PHONY: help reproduce full test fast-tests notebook-tests test-all lint style lab book slides serve picture lock dist matrix clean

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# torch comes by pip, whose settings may name a build of it. uv is twice as fast for the rest, but doesn't read these
# settings: where it finds nothing, pip installs the rest too. The stamp comes last, so that an interrupted installation
# is not mistaken for a finished one.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 12) else f"The course needs Python 3.11 or 3.12, since tianshou 2.x needs 3.11 and torchrl 0.6.0, the oldest release in chapter 3, has no wheel for 3.13. $(PYTHON) is {v[0]}.{v[1]}: run make PYTHON=python3.12")'
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) $$(grep -E '^(torch|uv)==' requirements.lock)
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -r requirements.lock || \
	  $(PIP) -r requirements.lock
	$(PIP) --no-deps --editable .
	@touch $@

reproduce: $(READY)  ## run the notebooks and print the verdicts   [PROFILE=tiny|smoke|full DEVICE=auto|cpu|cuda ONLY=02]
	$(BIN)/rlrepro reproduce $(ONLY) --profile $(PROFILE) --device $(DEVICE)

full: $(READY)  ## run the notebooks at the articles' own scale
	$(MAKE) reproduce PROFILE=full

book: $(READY)  ## build the site from the last run; missing or outdated notebooks are run first   [RUN=runs/latest]
	$(BIN)/rlrepro book --run $(RUN)

slides: $(READY)  ## write slides for each chapter from the last run to build/slides   [RUN=runs/latest]
	$(BIN)/rlrepro slides --run $(RUN)

serve: $(READY)  ## serve the site on this machine
	@test -f book/_build/html/index.html || { echo "There is no site yet: run make book"; exit 1; }
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory book/_build/html 8000

test: style  ## the fast tests, in minutes; meanwhile each notebook is run in the profile `tiny`
	@rm -rf build/tiny && mkdir -p build/tiny
	@OMP_WAIT_POLICY=PASSIVE $(MAKE) --no-print-directory --jobs=4 PROFILE=tiny fast-tests notebook-tests

fast-tests:
	nice -n 10 $(BIN)/python -m pytest -m "not slow and not timing and not notebooks"

# Chapters in three parts that take about the same time; 06 judges what all others measured. They run at once, since no
# test looks at their times. What waits for them takes a minute, so the fast tests let them go first.
TESTED := $(BIN)/rlrepro reproduce --profile $(PROFILE) --device cpu --out build/$(PROFILE)
PARTS := 47 123 0589

$(PARTS:%=chapters-%):
	@$(TESTED) $(filter-out 06_%,$(basename $(notdir $(wildcard notebooks/?[$(@:chapters-%=%)]_*.ipynb)))) $(call quietly,$@)

chapters: $(PARTS:%=chapters-%)
	@$(TESTED) 06 $(call quietly,verdicts)

# Its output would be mixed with that of the fast tests, which take longer.
notebook-tests: chapters
	@RLREPRO_RUN=build/tiny $(BIN)/python -m pytest -n 2 --dist worksteal -m "notebooks and not slow" tests/notebooks $(call quietly,tests)
	@cat build/tiny/tests.log

quietly = >build/$(PROFILE)/$(1).log 2>&1 || { cat build/$(PROFILE)/$(1).log; exit 1; }

SMOKE := OMP_WAIT_POLICY=PASSIVE $(MAKE) --no-print-directory PROFILE=smoke

test-all: lint  ## every test; each notebook is run in the profile `smoke`
	@rm -rf build/smoke && mkdir -p build/smoke
	@$(SMOKE) PARTS=4 chapters-4 || true  # alone, since its processes keep all cores busy with waiting
	@$(SMOKE) --jobs=3 PARTS='7 123 0589' chapters || true
	RLREPRO_RUN=build/smoke OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -n 2 --dist worksteal -m "not timing"
	$(BIN)/python -m pytest -m timing

lint: style  ## check style, structure, notebooks and terms, in seconds
	$(BIN)/python -m pytest -n 0 --durations=1 tests/test_project.py tests/test_waits.py

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/nbstripout --verify notebooks/*.ipynb
	$(BIN)/codespell README.md CONTRIBUTING.md CHANGELOG.md book notebooks rlrepro tests

lab: $(READY)  ## open the notebooks in JupyterLab, on this machine only
	$(BIN)/jupyter lab --ip=127.0.0.1 --notebook-dir=. --LabApp.default_url=/lab/tree/notebooks $(LAB_ARGS)

picture: $(READY)  ## redraw the README's figure from the reference records
	@mkdir -p images
	$(BIN)/python -c "from pathlib import Path; from rlrepro.cases.logp_old import plots; from rlrepro.evidence import read_records; plots.plot_peak_against_rows(read_records(sorted(Path('results').glob('*/02_logp_old_oom.jsonl'))[0])).save('images/logp_old.svg')"

# CUDA libraries are left out: torch's own metadata requires them, so one lock serves CPU and CUDA builds.
lock:  ## rewrite requirements.lock from pyproject.toml
	@rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --upgrade pip
	build/lock/bin/python -m pip install --quiet torch==2.13.0
	build/lock/bin/python -m pip install --quiet '.[course,ray,rllib]' --group dev
	{ echo '# Exact versions, written by `make lock`. CUDA libraries are left to the torch that is installed.'; \
	  build/lock/bin/python -m pip freeze --all --exclude rlrepro --exclude setuptools | sed 's/^\(torch==[^+]*\)+.*/\1/' | grep -vE '^(nvidia-|triton|cuda-)'; } > requirements.lock

dist: $(READY)  ## build the wheel and sdist, check them, and try the wheel in an empty environment
	rm -rf dist
	$(BIN)/uv build --quiet
	$(BIN)/uvx --quiet twine check --strict dist/*
	$(BIN)/uv venv --quiet --clear build/empty
	$(BIN)/uv pip install --quiet --python build/empty dist/*.whl
	cd build && empty/bin/rlrepro --version && empty/bin/rlrepro doctor --explain all

matrix: dist  ## test the fixes with releases of their libraries, and keep records   [ONLY="torchrl tianshou==1"]
	$(BIN)/rlrepro matrix $(ONLY) --wheel dist/*.whl --write

clean:  ## remove the environment, runs and caches
	rm -rf $(VENV) build dist runs book/_build .pytest_cache .ruff_cache .hypothesis
