# Every target makes what it needs: a machine with Python 3.11 or later and make is enough.

VENV   ?= .venv
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	command -v $$p >/dev/null 2>&1 && \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && \
	{ echo $$p; break; }; done)
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
TESTS  ?= tests
PAGES  := $(shell find docs -name '*.md')

# Tests start Python hundreds of times: without bytecode each would compile Tawa's modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all gpu-test lint format docs site clean bench-axon bench-cuppl
.DEFAULT_GOAL := help

help:            ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 14

demo: $(VENV)/.run    ## compile a GEMM, run it in the simulator (and on the GPU where there is one)
	@$(BIN)/python examples/demo.py
	@echo
	@echo "Next: . $(BIN)/activate && tawa run examples/gemm.py:gemm && tawa report examples/gemm.py:gemm"

test: lint       ## lint, type-check and test, without the tests of tests/slow.txt
	@$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" $(TESTS)

test-all: lint   ## lint, type-check and run all tests, as CI does
	@$(BIN)/python -m pytest -n auto --dist worksteal $(TESTS)

gpu-test: $(VENV)/.dev ## run the tests that need an H100
	@$(BIN)/python -m pytest -q -m gpu $(TESTS)

lint: $(VENV)/.dev    ## ruff and pyright
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright --pythonpath $(BIN)/python

format: $(VENV)/.dev  ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(VENV)/.dev    ## rewrite the outputs shown in the documentation from what the code prints now
	@$(BIN)/python benchmarks/tables.py --write README.md $(PAGES)
	@$(BIN)/python benchmarks/plots.py --write README.md $(PAGES)
	@$(BIN)/python -m pytest -q tests/meta/test_documents.py tests/meta/test_error_index.py tests/site/test_notebooks.py --update
	@$(BIN)/python scripts/example_pages.py

site: $(VENV)/.dev    ## build the website in build/site
	@NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --quiet --strict
	@echo "see it: $(BIN)/python -m http.server -d build/site, then http://localhost:8000"

bench-axon: $(VENV)/.dev    ## shape inference beside its peers: node cases, light models, long chains
	@$(PIP) --editable '.[peers]'
	@$(BIN)/python benchmarks/axon.py

clean:           ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Tawa needs Python 3.11 or later; set PYTHON=/path/to/python" >&2; exit 1; }
	@echo "making $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing (Debian, Ubuntu: apt install python3-venv)" >&2; rm -rf $(VENV); exit 1; }

$(VENV)/.run: pyproject.toml | $(VENV)/bin/python
	@echo "installing Tawa and what it runs on"
	@$(PIP) --editable '.[report]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	@echo "installing Tawa with its test and lint tools"
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.run

bench-cuppl: $(VENV)/.dev   ## birth-death filters beside C and WebPPL (npm); NumPyro, GenJAX
	@$(PYTHON) -m venv build/peers && build/peers/bin/pip install --quiet numpyro genjax
	@$(BIN)/python benchmarks/cuppl.py --webppl build/webppl --peers build/peers/bin/python
