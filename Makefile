# `make demo` and `make test` are all a newcomer needs; each sets up .venv first, once.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Tests start hundreds of processes. Compiled once, our modules need not be compiled by each of them.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-long test-slow test-ci-slow test-oldest lint docs docs-quick bench clean

demo: $(READY)  ## search, confirm, pick and ship on embedded data
	$(BIN)/sae demo --out runs/demo

# Each worker begins with one half, so that what a folder's tests share, such as a trained run, is made once; whoever is
# done first takes over from the other.
WORKERS := -n 2 --dist worksteal

test: $(READY)  ## nine tests in ten, in three minutes: doctests, the blocks of README and docs, the examples
	$(BIN)/python -m pytest $(WORKERS) -m "not slow and not long"

test-long: $(READY)  ## the rest that every change must pass: pages in a browser, whole searches, exports
	$(BIN)/python -m pytest $(WORKERS) -m "long and not slow"

test-slow: $(READY)  ## the tests over a few seconds
	$(BIN)/python -m pytest $(WORKERS) -m slow

CI_SLOW := \
	tests/cli/test_cli.py::test_a_killed_process_continues_to_the_same_numbers \
	tests/cli/test_cli.py::test_digits_reach_the_accuracy_that_is_expected_of_them \
	tests/deploy/test_graph.py::test_a_graph_predicts_what_the_run_predicts_and_holds_what_it_costs \
	tests/docs/test_glossary.py \
	tests/end_to_end/test_experiment.py \
	tests/end_to_end/test_install.py \
	tests/training/test_compiled.py::test_a_compiled_run_that_was_interrupted_continues_to_the_same_bytes \
	tests/training/test_parallel.py::test_members_trained_in_two_processes_are_the_same_to_the_byte

test-ci-slow: $(READY)  ## the slow tests that every change must pass: kills, export parity, a whole experiment
	$(BIN)/python -m pytest $(WORKERS) -m slow --durations 10 $(CI_SLOW)

OLDEST := runs/oldest
OLDEST_ROOMS := $(addprefix tests/,core config records analysis cli data deploy report)

test-oldest:  ## the rooms of the base install and of reports, with the oldest versions that pyproject.toml allows
	rm -rf $(OLDEST)
	$(PYTHON) -m venv $(OLDEST)
	$(PYTHON) .ci/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c $(OLDEST)/constraints.txt '.[train,tables,tensorboard]' pytest hypothesis pandas playwright
	$(OLDEST)/bin/python -m pytest -W default -m "not slow" $(OLDEST_ROOMS)

lint: $(READY)  ## style, types, direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

SITE := $(BIN)/python -m sphinx --fail-on-warning --keep-going -q docs runs/site

docs: $(READY)  ## the site with the gallery executed, runs/site/index.html: takes minutes
	$(SITE)

docs-quick: $(READY)  ## the site without executing the gallery; a warning is an error
	$(SITE) -D plot_gallery=0

bench: $(READY)  ## ratios measured side by side; results are in docs/benchmarks.md
	$(BIN)/python -m benchmarks.training_step
	$(BIN)/python -m benchmarks.corruptions
	$(BIN)/python -m benchmarks.ensemble_training
	$(BIN)/python -m benchmarks.samplers
	$(BIN)/python -m benchmarks.search_overhead
	$(BIN)/python -m benchmarks.shipping

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[train,tables,dev,docs]'
	touch $@

clean:
	rm -rf .venv
