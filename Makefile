# make help lists what there is. Everything is set up on first use, in .venv, and again when pyproject.toml changes.

PY := .venv/bin/python
READY := .venv/ready
PYTEST := $(PY) -m pytest -n 4 --dist worksteal
STUDIO := src/windlass/server/web/studio/index.html
STUDIO_SOURCES := $(shell find studio/src studio/public -type f) $(wildcard studio/*.json studio/*.html studio/*.ts studio/*.cjs)
# Compiled modules are kept, also where the machine says otherwise: the tests start Python thousands of times.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo studio studio-dev studio-types studio-check test test-core test-studio compile-tests check lint format types imports travels sizes docs docs-check azureml-coverage bench test-faults test-chaos test-network test-all setup-engines system clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r name text; do printf '%-12s %s\n' "$$name" "$$text"; done

$(READY): pyproject.toml tools/setup
	@tools/setup python

studio: studio-types  ## build the web pages that the server serves
	@$(MAKE) --no-print-directory $(STUDIO)

studio-dev: $(READY) .venv/node  ## serve the studio's sources with hot reload, for the server of WINDLASS_URL or your own
	$(PY) -m tools.studio dev

# The types of the API, from its OpenAPI document.
studio-types: $(READY) .venv/node
	$(PY) -m tools.studio types

studio-check: $(STUDIO)
	$(PY) -m tools.studio check

# Node for the studio: the machine's, or one from PyPI.
.venv/node: $(READY)
	@tools/setup node

$(STUDIO): $(STUDIO_SOURCES) | $(READY) .venv/node
	@$(PY) -m tools.studio build

demo: $(READY) $(STUDIO)  ## train a small model on this computer and look at its record
	@$(PY) tools/demo.py

test: setup-engines $(STUDIO)  ## everything static, then the tests
	@$(MAKE) --no-print-directory --output-sync=target -j 2 check test-core compile-tests
	@# The browser by itself: it drops its connections when other tests add network interfaces.
	$(PY) -m tools.run_tests -n 5 --dist worksteal --ignore=tests/core --ignore=tests/studio -m 'not slow' --sample
	$(PY) -m tools.run_tests -n 2 --dist worksteal tests/studio -m 'not slow' --sample

# What decides and what is named is covered to the last branch.
test-core: $(READY)
	$(PY) -m coverage run -m pytest --sample tests/core
	$(PY) -m coverage report

# Each worker would compile all tests by itself in a fresh clone: they find them compiled.
compile-tests: $(READY)
	@$(PY) -m pytest --collect-only --sample >/dev/null

check: lint types imports travels docs-check studio-check sizes  ## everything static: style, types, layers, docs

lint: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(READY)
	$(PY) -m mypy

imports: $(READY)
	$(PY) -c 'from importlinter.cli import lint_imports_command as main; main()'

# What runs on other people's machines makes do with Python 3.8.
travels: $(READY)
	.venv/bin/vermin --quiet --no-tips --violations -t=3.8- src/windlass/*.py src/windlass/core src/windlass/client src/windlass/compat src/windlass/runner

docs-check: $(READY)
	$(PY) -m tools.docs --check

# What is large is a place to look at, not an error.
sizes: $(READY)
	@$(PY) -m tools.sizes

docs: $(READY)  ## write docs/reference/ and docs/seeds.md anew from the code
	$(PY) -m tools.docs

azureml-coverage: $(READY)  ## how much of what public code uses of Azure's SDK is provided; writes docs/azureml.md
	$(PY) -m tools.docs
	$(PY) -m tools.azureml_coverage

format: $(READY)  ## put the code into shape
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: setup-engines $(STUDIO)  ## measure against the bare thing; writes benchmarks/RESULTS.md
	$(PY) -m benchmarks

test-studio: $(STUDIO) system  ## the studio in a real browser, whole
	$(PY) -m pytest -n 2 --dist worksteal tests/studio

test-faults: $(READY) setup-engines  ## the whole crash matrix
	$(PYTEST) tests/faults

test-chaos: $(READY) system  ## random kills and stops, 20 minutes on SQLite and on two servers with PostgreSQL
	$(PY) -m tests.chaos

test-network: $(READY) setup-engines  ## lines to machines that fail, as long as they do in life
	$(PYTEST) tests/faults/test_network.py tests/e2e/test_ssh.py

test-all: check setup-engines  ## the tests and the slow ones, every table of inputs whole
	$(PYTEST) --ignore=tests/studio
	@$(MAKE) --no-print-directory test-studio

setup-engines: $(READY) system  ## build what the tests' engines need, once per machine, in a cache outside of the clone
	@$(PY) -m tests.engines.images

system:
	@tools/setup system

clean:  ## remove what was built, the set-up and the demo's runs
	@if [ -x $(PY) ] && [ -d .cache/demo ]; then WINDLASS_HOME=.cache/demo .venv/bin/windlass server stop >/dev/null 2>&1 || true; fi
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .schemathesis build dist studio/node_modules src/windlass/server/web/studio
