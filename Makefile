# Both commands do all their own set-up on a machine with Python 3.11+, make and the package registries.
# The first interpreter that is there and new enough; a name on the PATH may be a stub that runs nothing.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint types imports proto bench clean

demo: $(READY)
	@$(BIN)/python -m bench.demo

test: $(READY)
	$(BIN)/python -m pytest -n 2 -m "not collector and not frameworks" $(TESTS)
	@echo "left out, and run by .ci/run: the real Collector, Jaeger and Kafka (tests/collector), agent frameworks (tests/frameworks)"

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python -m bench

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "otel_replay needs Python 3.11 or newer on the PATH" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
