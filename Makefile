# SPDX-License-Identifier: Apache-2.0
# On a fresh machine with Python and make, `make demo` and `make test` do all the set-up there is.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
CODE   := src tests $(wildcard benchmarks)

.PHONY: demo test lint check bench clean help

help:
	@echo 'make demo    watch a training with a real mistake in it, and see it named'
	@echo 'make test    every check and every test'
	@echo 'make check   the fast part: formatting, types, quick tests'
	@echo 'make bench   what watching costs'
	@echo 'make clean   remove what the above made'

# Done once, and again when the dependencies change.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo 'error: Python 3.10 or newer is needed (tested: 3.11); name one: make PYTHON=python3.11 ...' >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo 'error: this Python has no venv or no ensurepip; on Debian and Ubuntu: apt install python3-venv' >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,demo,lint]'
	@touch $(READY)

# The demo ends as a run with a fault ends: with exit code 3.
demo: $(READY)
	@$(BIN)/firstfault demo; code=$$?; [ $$code -eq 3 ] || exit $$code

test: lint
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff format --check --exclude tests/programs $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy

check: lint
	$(BIN)/python -m pytest -q -m 'not slow' --ignore=tests/matrix

bench: $(READY)
	@set -e; for program in benchmarks/*.py; do echo "== $$program"; $(BIN)/python "$$program"; done

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
