.DEFAULT_GOAL := help
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: help setup run test lint format bench ui reproduce-tables lock clean-cache

help:            ## Show the targets
	@grep -hE '^[a-z-]+: .*##|^[a-z-]+:  *##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 20

setup: $(STAMP)  ## Make .venv from requirements.lock and install omkl into it

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else "omkl needs Python 3.11 to 3.13, found %d.%d; set PYTHON=python3.12, say" % v)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

run: setup       ## The main job on the embedded synthetic stream
	$(BIN)/omkl-run

test: setup      ## All tests
	$(BIN)/python -m pytest

