.DEFAULT_GOAL := help
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
MODELS := $(VENV)/.models-installed
DOCS   := $(VENV)/.docs-installed
FLOWER := .venv-flower
SPARK  := .venv-spark
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
# As many workers as cores, at most four; tests/conftest.py says what stays together.
WORKERS ?= auto
# What make benchmark runs: quick, or regression-1, regression-long, outside-1,
# classification-1, classification-long, drift-1, faults-1, river-tracks.
SUITE ?= quick
TABLE ?= jmlr_table1
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --no-loadscope-reorder

.PHONY: help setup run test test-quick test-data test-wheel test-flower test-spark fuzz lint bench benchmark docs ui reproduce-tables table lock audit chaos endurance

help:             ## Show the targets
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | column -t -s '|'

setup: $(STAMP)   ## Make .venv from requirements.lock and install omkl into it

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v >= (3, 11) else "omkl needs Python 3.11 or later and found %d.%d: make PYTHON=python3.12 ..." % v)'
	@echo "Installing into $(VENV) from requirements.lock (once; half a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python scripts/install.py
	@touch $@

run: setup        ## Predict a file that comes with omkl, then a synthetic stream by a learner of the papers
	$(BIN)/omkl-data example outputs/my.csv
	$(BIN)/omkl-run outputs/my.csv target=price interval=0.9
	$(BIN)/omkl-run algorithm=sfg_r dataset=synthetic
	@echo "your own file:  $(BIN)/omkl-run FILE.csv target=COLUMN"

test: setup       ## Run all tests, side by side on the cores that there are
	$(PYTEST)

test-quick: setup ## Run the tests that are not slow: what one runs between edits
	$(PYTEST) -m "not slow"

test-data: setup  ## Run the tests of real data, from OMKL_DATA_DIR, data/ or ../shared/data
	$(PYTEST) -m real_data

test-wheel: setup ## Build an sdist and a wheel, use the wheel from an empty venv, and test the sdist
	scripts/test_wheel.sh $(BIN)/uv

test-flower: $(FLOWER)/.installed  ## Run the tests on Flower, in a venv of its own
	$(FLOWER)/bin/python -m pytest tests/federated/test_flower.py

test-spark: $(SPARK)/.installed  ## Run the test on Spark, whose driver is killed, in a venv of its own (needs Java)
	$(SPARK)/bin/python -m pytest tests/spark

.venv-%/.installed: pyproject.toml
	@echo "Installing the extra $* into .venv-$* (once; a few minutes) ..."
	@$(PYTHON) -m venv .venv-$*
	@echo '*' > .venv-$*/.gitignore
	@.venv-$*/bin/python -m pip --disable-pip-version-check --quiet install --editable '.[$*,dev]'
	@touch $@

fuzz: setup       ## Try 5,000 files, settings and models that nobody would write (10 minutes)
	OMKL_FUZZ=5000 $(PYTEST) tests/datasets/test_fuzz.py tests/experiment/test_fuzz.py tests/online/test_forged_models.py

lint: setup       ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup      ## Measure the core against the limit of the machine (minutes)
	$(BIN)/python scripts/bench.py

benchmark: $(MODELS)  ## Run a suite of streams, learners and other libraries (SUITE=quick: 3 minutes)
	$(BIN)/python scripts/benchmark.py run $(SUITE)

$(MODELS): $(STAMP)
	@echo "Installing the other libraries of the benchmark into $(VENV) (once) ..."
	@$(PIP) install --editable '.[bench]'
	@$(PIP) install --only-binary vowpalwabbit vowpalwabbit || echo "No wheel of Vowpal Wabbit for this Python: its rows say so"
	@touch $@

# mkdocs finds what makes pages beside itself; its theme says at every start what becomes of it.
docs: $(DOCS)     ## Build the site into site/, its gallery and cards computed (minutes)
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=scripts $(BIN)/mkdocs build --strict

$(DOCS): $(STAMP)
	@echo "Installing what the site is built with into $(VENV) (once) ..."
	@$(PIP) install --editable '.[docs]'
	@touch $@

ui: setup         ## Open MLflow on the runs in outputs/
	$(BIN)/omkl-report ui

reproduce-tables: setup  ## Rerun the published tables and put each number beside ours (15 minutes)
	PYTHONPATH=scripts $(BIN)/python -m reproduce run

table: setup      ## Rerun published tables: TABLE="jmlr_table1 jmlr_table2"
	PYTHONPATH=scripts $(BIN)/python -m reproduce run $(TABLE)

chaos: setup      ## Kill, starve and damage sweeps at random, and count what is lost (half an hour)
	$(BIN)/python scripts/chaos.py --docs docs

endurance: setup  ## Ten million rounds of a file and of every representation (20 minutes)
	$(BIN)/python scripts/endurance.py --docs docs

audit: setup      ## Look the versions of the lock up among known vulnerabilities
	$(BIN)/uv tool run pip-audit --requirement requirements.lock --disable-pip --require-hashes --strict

lock:             ## Resolve requirements.lock anew (with the uv of .venv, or another)
	PATH="$(CURDIR)/$(BIN):$$PATH" uv pip compile pyproject.toml --universal --extra dev --python-version 3.11 \
	  --generate-hashes --no-header --quiet --output-file requirements.lock
