# Two commands for a new user: `make run` and `make test`. Everything is installed into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUN_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run test lint bench clean

help: ## show this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "autoinfer needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-reference: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[reference]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed-reference
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[reference,dev]'
	@touch $@

run: $(VENV)/.installed-reference ## run an autonomous campaign on the packaged reference model, on this CPU
	$(BIN)/autoinfer run $(RUN_ARGS)

lint: $(VENV)/.installed-dev ## ruff, mypy --strict
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint ## all checks and all tests
	$(BIN)/python -m pytest

bench: $(VENV)/.installed-dev ## the benchmarks alone, with their figures
	$(BIN)/python -m pytest tests/benchmarks -s

clean: ## remove .venv and what the tools left behind
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
