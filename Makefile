# make quickstart: train a small model on real data and see it work.   make test: every check.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: quickstart test clean

quickstart: .venv/installed
	$(BIN)/dragoman quickstart

test: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --editable '.[quickstart]'
	touch $@

.venv/installed-dev: .venv/bin/python pyproject.toml constraints.txt
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --editable '.[dev]'
	touch $@ .venv/installed

clean:
	rm -rf .venv
