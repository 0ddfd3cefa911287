# Two commands for a new user: `make run` and `make test`. Everything is installed into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
QUANTIZE_VENV := $(VENV)-quantize
PIP_INSTALL = -m pip install --quiet --disable-pip-version-check $(PIP_OPTIONS)
RUN_ARGS ?=
VERDICTS_ARGS ?=
PLANNER_ARGS ?=
PICTURES_OF ?=
TABLE_OF ?= table-reference
TABLE_BUDGET ?= 30m
TEST_WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(os.cpu_count() or 1, 8) + 2)')

.DEFAULT_GOAL := help
.PHONY: help run test suite lint bench looks pictures quantize-env verdicts planner surrogate transfer table-reference compose-secrets clean

help: ## show this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "autoinfer needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-reference: pyproject.toml | $(BIN)/python
	$(BIN)/python $(PIP_INSTALL) --editable '.[reference]'
	@touch $@

dashboard/static/vendor/.installed: package-lock.json | $(VENV)/.installed-reference
	@$(BIN)/python -m dashboard.browser_libraries && mkdir -p $(@D) && touch $@

$(VENV)/.installed-dev: $(VENV)/.installed-reference dashboard/static/vendor/.installed
	$(BIN)/python $(PIP_INSTALL) --editable '.[reference,dev]'
	@touch $@

# llmcompressor excludes newer transformers, so it gets an environment of its own. That one sees the packages of
# $(VENV) behind its own: PyTorch is not installed twice.
$(QUANTIZE_VENV)/.installed: pyproject.toml | $(VENV)/.installed-reference
	$(BIN)/python -m venv --clear $(QUANTIZE_VENV)
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	  > "$$($(QUANTIZE_VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/behind.pth"
	$(QUANTIZE_VENV)/bin/python $(PIP_INSTALL) \
	  $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["quantize"])')
	@touch $@

quantize-env: $(QUANTIZE_VENV)/.installed ## what quantizes (test, bench and a run of levers make it too)

# Of the packaged campaigns `levers` and `controls` have knobs that quantize; for a file of one's own: make quantize-env.
run: $(VENV)/.installed-reference dashboard/static/vendor/.installed $(if $(findstring levers,$(RUN_ARGS))$(findstring controls,$(RUN_ARGS)),$(QUANTIZE_VENV)/.installed) ## run an autonomous campaign on the packaged reference model, on this CPU
	$(BIN)/autoinfer run $(RUN_ARGS)

lint: $(VENV)/.installed-dev ## ruff, mypy --strict
	$(BIN)/ruff check .
	$(BIN)/mypy

# pip would compile each of 17,000 modules, one after another; what tests import they compile, one in seven.
test lint suite: PIP_OPTIONS = --no-compile

# The suite leaves some of the cores' time, for many of its tests wait: what is checked without running it fits there.
# What is timed runs alone, after it.
test: $(VENV)/.installed-dev ## all checks and all tests but the long proofs of make bench
	@$(BIN)/python -c 'import shutil, sys; sys.exit(not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))' || \
	  echo "No Chromium was found, so no page is looked at in a browser; get one with: apt-get install chromium"
	@$(MAKE) --no-print-directory --jobs 2 lint suite
	$(BIN)/python -m pytest tests/benchmarks

# A file's tests share what the file makes, so that a file goes to one worker. Long files come first, so that the
# workers end together; there are two more of them than cores, because many tests wait.
suite: $(VENV)/.installed-dev $(QUANTIZE_VENV)/.installed
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder tests/e2e tests/integration tests/unit

bench: $(VENV)/.installed-dev $(QUANTIZE_VENV)/.installed ## benchmarks with their figures, long proofs, and properties with ten times as many examples
	$(BIN)/python -m pytest tests/benchmarks -s -m 'bench_only or not bench_only'
	$(BIN)/python -m pytest tests/unit tests/integration --ignore tests/integration/dashboard/test_browser.py -m bench_only
	$(BIN)/python -m pytest -n $(TEST_WORKERS) tests/unit -m hypothesis --hypothesis-profile thorough

looks: $(VENV)/.installed-dev ## what pages do in a browser, and how each looks in both themes, wide and narrow
	$(BIN)/python -m pytest tests/integration/dashboard/test_browser.py -m 'bench_only or not bench_only'

pictures: $(VENV)/.installed-dev ## the pictures of the documentation, from the campaign in PICTURES_OF=DATA_DIR, in a browser
	$(BIN)/python -m tests.pictures $(PICTURES_OF)

verdicts: $(VENV)/.installed-dev ## prove what verdicts are worth: writes docs/results/verdicts.md (minutes)
	$(BIN)/python -m tests.proofs.verdicts $(VERDICTS_ARGS)

planner: $(VENV)/.installed-dev ## prove what the planner is worth on frozen tables: writes docs/results/planner.md (minutes)
	$(BIN)/python $(PIP_INSTALL) --editable '.[smac]'
	$(BIN)/python -m tests.proofs.planner $(PLANNER_ARGS)

surrogate: $(VENV)/.installed-dev ## prove what the surrogate's predictions are worth on frozen tables: writes docs/results/surrogate.md (minutes)
	$(BIN)/python -m tests.proofs.surrogate $(SURROGATE_ARGS)

# What was cut off goes on with TRANSFER_ARGS="--runs FILE", which keeps each run in that file as it ends.
transfer: $(VENV)/.installed-dev ## prove what other campaigns' findings are worth, true and poisoned: writes docs/results/transfer.md (minutes)
	$(BIN)/python -m tests.proofs.transfer --held-out $(TRANSFER_ARGS)

# What is prepared already is not prepared again, nor what is measured measured. Nothing else may run meanwhile.
table-reference: $(VENV)/.installed-reference $(QUANTIZE_VENV)/.installed ## the table of the reference engine, in the folder TABLE_OF (hours; the measuring TABLE_BUDGET)
	$(BIN)/autoinfer table prepare reference --out $(TABLE_OF)
	$(BIN)/autoinfer table measure reference --target cpu --out $(TABLE_OF) --budget $(TABLE_BUDGET)
	$(BIN)/autoinfer table archive $(TABLE_OF) --gaps-up-to 0 --to docs/results/tables/reference.jsonl
	$(BIN)/autoinfer table export docs/results/tables/reference.jsonl --to docs/results/tables/reference.csv
	$(BIN)/autoinfer table page docs/results/tables/reference.jsonl --title "The reference engine's table" --to docs/results/reference-table.md

# The folder is for its owner alone; the files in it can be read by all, for in a container a user of another number
# reads them there. What is there stays as it is.
compose-secrets: ## a password and a token for docker compose, in ./secrets
	@mkdir -p -m 700 secrets
	@for name in database_password dashboard_token; do \
	  test -s secrets/$$name || { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' > secrets/$$name && chmod 644 secrets/$$name; }; \
	done
	@echo "The dashboard's token is in secrets/dashboard_token."

clean: ## remove .venv and what the tools left behind
	rm -rf $(VENV) $(QUANTIZE_VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
