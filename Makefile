# `make demo` and `make test` each do their own set-up; nothing needs the network once `make setup` is done.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: help setup demo test quick lint bench soak campaign lock clean

help:
	@echo "make demo   plan and compare an example problem, then run a pipeline on three small Spark sites"
	@echo "make test   ruff, mypy and the test suite; what needs no Spark comes first"
	@echo "make quick  the same without the tests that need Spark (two minutes)"
	@echo "make bench  the benchmarks (minutes), results in out/"
	@echo "make soak   the long campaigns that CI leaves out"
	@echo "make campaign  100 kills of sites, 100 of Mooring, 200 moves, and more, on Spark (hours)"
	@echo "make lock   resolve requirements.lock anew (needs the network)"

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.lock pyproject.toml lab/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Mooring needs Python 3.11 or newer; found " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . --editable lab
	@touch $@

demo: setup
	$(BIN)/python examples/demo.py
	$(BIN)/python examples/network_monitoring/demo.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/oxlint --deny-warnings mooring/service/page

quick: lint
	$(BIN)/pytest -n 2 -m "not soak and not spark"

# Tests on Spark wait for it a third of the time, so a third worker. Files are given out as a whole, since their tests share brokers
# and folders, in the order of tests/conftest.py: the longest first.
test: quick
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not soak and spark" tests/spark

bench: setup
	$(BIN)/python -m lab.benchmarks

soak: setup
	$(BIN)/pytest -m soak

campaign: setup
	$(BIN)/python -m lab.benchmarks.spark_faults --rounds 25

lock:
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet pip-tools
	$(VENV)-lock/bin/pip-compile --strip-extras --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-emit-options --no-header --allow-unsafe --all-build-deps --extra dev --extra serve --extra spark --output-file requirements.lock pyproject.toml
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) build out *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
