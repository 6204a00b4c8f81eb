# Both commands do all their own set-up on a machine with Python 3.11+, make and the package registries.
PYTHON ?= $(shell command -v python3.13 || command -v python3.12 || command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint types imports proto bench clean

demo: $(READY)
	@$(BIN)/python -m bench.demo

test: $(READY)
	$(BIN)/python -m pytest -n 2 -m "not collector" $(TESTS)
	@echo "left out: the tests against the real Collector and Jaeger; tests/collector/build.sh builds them, .ci/run runs them"

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python -m bench

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("otel_replay needs Python 3.11 or newer, not " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
