"""Lists of runs: all runs below a folder, filtered and sorted."""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sae.core.errors import RecordError, check_known
from sae.core.objectives import COSTS, METRICS, Quantity
from sae.records.evaluation import Json
from sae.records.run import STATES, Run, RunRecord, read_run

TEXTS = ("run", "state", "data", "method", "kind", "settings")
FACTS: dict[str, Quantity] = {
    "seed": Quantity(),
    "epochs": Quantity(maximise=True),
    "seconds": Quantity(),
    "ended": Quantity(maximise=True),
}
"""Other numbers of a run than metrics and costs; the newest run is the best."""


def sortable_numbers() -> dict[str, Quantity]:
    """Return every number that runs can be sorted by."""
    return {**{entry.key: entry for entry in METRICS}, **COSTS, **FACTS}


def list_runs(folder: Path) -> list[Run]:
    """Read all runs below a folder, including those of studies, sorted by path."""
    check_folder(folder)
    return [look_at(record) for record in find_runs(folder)]


def check_folder(path: Path) -> None:
    """Refuse a path that is not a folder."""
    if not path.is_dir():
        raise RecordError(f"{path} {'is not a folder' if path.exists() else 'does not exist'}")


def find_runs(folder: Path) -> Iterator[RunRecord]:
    """Yield every run folder at or below a folder; hidden folders and links are skipped."""
    for path, folders, files in os.walk(folder):
        record = RunRecord(Path(path))
        if RunRecord.CONFIG in files and record.is_made():
            folders.clear()
            yield record
        folders[:] = sorted(name for name in folders if not name.startswith("."))


def look_at(record: RunRecord) -> Run:
    """Read a run; its state is `running` if a process works on it."""
    run = read_run(record)
    return replace(run, state="running") if run.state == "unfinished" and record.is_busy() else run


def values_on_test(run: Run) -> dict[str, float]:
    """Return test metrics and costs at the K′ that is best on validation; empty without a result."""
    if run.evaluation is None:
        return {}
    reading = run.evaluation.test.at(run.evaluation.best_exits)
    return {**reading.metrics, **reading.costs}


def describe(run: Run) -> Json:
    """Return a run as JSON; its name is its path."""
    config, values = run.config, values_on_test(run)
    return {
        "run": str(run.record.path),
        "state": run.state,
        "data": config and config.data.name,
        "method": config and config.method.name,
        "kind": config and config.kind,
        "settings": config and config.summary,
        "seed": config and config.seed,
        "epochs": num_epochs(run),
        "planned_epochs": config and config.train.epochs,
        "metrics": {key: value for key, value in values.items() if key not in COSTS},
        **{key: values.get(key) for key in COSTS},
        "seconds": run.seconds,
        "ended": run.status and run.status.ended,
        "error": run.error,
    }


def num_epochs(run: Run) -> int:
    """Return how many epochs are done; 0 for a damaged run."""
    if run.state == "damaged" or run.config is None:
        return 0
    if run.state != "finished":
        return run.record.count_epochs()
    return (run.status and run.status.epochs) or run.config.train.epochs


def select_runs(
    runs: Sequence[Run], states: Sequence[str] | None = None, methods: Sequence[str] | None = None
) -> list[Run]:
    """Return the runs in one of the states and of one of the methods or kinds (`EE`); None for all.

    The known methods are those of the runs.
    """
    names = sorted({name for run in runs for name in _names(run)})
    for name in states or ():
        check_known("state", name, STATES)
    for name in (methods or ()) if names else ():
        check_known("method", name, names)
    return [
        run
        for run in runs
        if (states is None or run.state in states) and (methods is None or not _names(run).isdisjoint(methods))
    ]


def _names(run: Run) -> set[str]:
    return {run.config.method.name, run.config.kind} if run.config else set()


def sort_runs(runs: Sequence[Run], column: str) -> list[Run]:
    """Sort by a text, or by a number with the best first; equals keep their order.

    Runs without a number, or with one that is not finite, come last.
    """
    numbers = sortable_numbers()
    check_known("the column to sort by", column, (*TEXTS, *numbers))
    if column in TEXTS:
        texts = [(run, text) for run in runs if isinstance(text := describe(run)[column], str)]
        found = [run for run, _ in sorted(texts, key=lambda pair: pair[1])]
    else:
        sign = -1 if numbers[column].maximise else 1
        values = [(run, value) for run in runs if (value := number_of(run, column)) is not None]
        finite = [(run, sign * value) for run, value in values if math.isfinite(value)]
        found = [run for run, _ in sorted(finite, key=lambda pair: pair[1])]
    known = {id(run) for run in found}
    return found + [run for run in runs if id(run) not in known]


def number_of(run: Run, column: str) -> float | None:
    """Return a metric, a cost or another number of a run; None if it has none."""
    found = values_on_test(run).get(column, describe(run).get(column))
    return found if isinstance(found, int | float) else None
