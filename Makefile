# make help lists the targets. The virtual environment is made when it is missing and brought up to date when
# pyproject.toml or constraints.txt change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile
INSTALLED := $(VENV)/.installed
PROSE := $(BIN)/python -m pytest docs/checks  # statements of pages beside committed results
OUTPUTS := OMP_NUM_THREADS=1 $(BIN)/python -m docs.site_tools.outputs --check  # beside what blocks print
LINKS := $(BIN)/lychee --quiet --offline --include-fragments --exclude-path webpack-macros.html  # within the site
BROWSER := $(BIN)/python -m tests.browser  # width, console, labels and search, where there is Chromium

# Compiled once and read by all processes, of which the tests start many: compiling romkit and what it imports takes
# each of them five seconds.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help rollout test test-all headline docs reference packages lint format clean python

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */  make \1\t/' | expand -t 17

rollout: $(INSTALLED)  ## simulate Lorenz96 and its reduced model at F = 3.15; results in runs/
	$(BIN)/romkit rollout lorenz96 --F 3.15 --force

test: $(INSTALLED)  ## run the tests but the slow ones: whole studies and benchmarks, long pages, kills
	$(PYTEST) -m "not slow"

test-all: $(INSTALLED)  ## run all tests
	$(PYTEST)

headline: $(INSTALLED)  ## compute the headline results at these sources, beside the committed ones; an hour
	OMP_NUM_THREADS=1 $(BIN)/python -m studies headline

docs: $(INSTALLED)  ## build the site in docs/_build/html; its tutorials and gallery run
	OMP_NUM_THREADS=1 TQDM_DISABLE=1 $(BIN)/sphinx-build -q -W --keep-going docs docs/_build/html
	$(PROSE)
	$(OUTPUTS) quick turn
	$(LINKS) docs/_build/html
	$(BROWSER) docs/_build/html

reference: $(INSTALLED)  ## the same without running tutorials and gallery
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -q -W --keep-going -D plot_gallery=0 docs docs/_build/reference
	$(PROSE)
	$(OUTPUTS) quick
	$(LINKS) docs/_build/reference
	$(BROWSER) docs/_build/reference

packages: python  ## use sdist and wheel as users would install them, away from the checkout
	PYTHON=$(PYTHON) .ci/packages

lint: $(INSTALLED)  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)  ## put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove the virtual environment, caches and build outputs; runs/ stays
	rm -rf $(VENV) docs/_build docs/auto_* docs/measured docs/reference build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find romkit tests studies benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "romkit needs Python 3.11 or newer, $(PYTHON) is older or missing; try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments: its venv or ensurepip module is missing." >&2; \
	  echo "On Debian and Ubuntu: apt install python3-venv. Or name another Python: make PYTHON=... $(MAKECMDGOALS)" >&2; \
	  exit 1; }

# One installation for tests and site. The import at its end compiles once what several processes would compile at once.
$(INSTALLED): pyproject.toml constraints.txt | python
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --editable ".[dev,docs]" --constraint constraints.txt
	@$(BIN)/python -c 'import romkit.cli.main, romkit.learning'
	@touch $@
