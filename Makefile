# `make demo` and `make test` are all a newcomer needs; each sets up .venv first, once.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-slow lint bench clean

demo: $(READY)  ## search, confirm, pick and ship on embedded data
	$(BIN)/sae demo --out runs/demo

test: $(READY)  ## everything that is not slow, doctests included
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: $(READY)  ## the tests over a few seconds
	$(BIN)/python -m pytest -n 2 -m slow

lint: $(READY)  ## style, types, direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)  ## ratios measured side by side; results are in docs/benchmarks.md
	$(BIN)/python -m benchmarks.training_step
	$(BIN)/python -m benchmarks.corruptions
	$(BIN)/python -m benchmarks.ensemble_training
	$(BIN)/python -m benchmarks.samplers
	$(BIN)/python -m benchmarks.search_overhead
	$(BIN)/python -m benchmarks.shipping

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[train,tables,dev]'
	touch $@

clean:
	rm -rf .venv
