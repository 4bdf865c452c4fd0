"""All runs below a folder, whoever made them: what each is, how far it came, and its main numbers."""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sae.analysis.candidates import kind_of, summary
from sae.config.run import RunConfig
from sae.core.errors import ConfigError, RecordError, did_you_mean
from sae.core.objectives import COSTS, METRICS, Quantity
from sae.records.run import STATES, RunRecord
from sae.records.study import DAMAGED, UNFINISHED, state_of

RUNNING = "running"
RUN_STATES = (*STATES, RUNNING, UNFINISHED, DAMAGED)
TEXTS = ("run", "state", "data", "method", "kind", "settings")


def numbers() -> dict[str, Quantity]:
    """Return the numbers that runs can be sorted by, with their directions; the newest run is the best."""
    return {
        **{entry.key: entry for entry in METRICS},
        **COSTS,
        "seed": Quantity(),
        "epochs": Quantity(maximise=True),
        "seconds": Quantity(),
        "ended": Quantity(maximise=True),
    }


@dataclass(frozen=True)
class ListedRun:
    """One run folder.

    Attributes:
        record: The folder.
        state: How it ended, else `running`, `unfinished` or `damaged`.
        config: Its settings; None if these are damaged.
        epochs: How many are done.
        values: Metrics on the test set at the trained number of exits, and costs.
        seconds: Time spent training.
        ended: When, in seconds since 1970.
        error: Why it has no numbers, if that was recorded.
    """

    record: RunRecord
    state: str
    config: RunConfig | None = None
    epochs: int = 0
    values: dict[str, float] = field(default_factory=dict)
    seconds: float | None = None
    ended: float | None = None
    error: str | None = None

    def describe(self) -> dict[str, Any]:
        """As JSON; the run by its path."""
        config = self.config
        return {
            "run": str(self.record.path),
            "state": self.state,
            "data": config and config.data.name,
            "method": config and config.method.name,
            "kind": config and kind_of(config),
            "settings": config and summary(config),
            "seed": config and config.seed,
            "epochs": self.epochs,
            "planned_epochs": config and config.train.epochs,
            "metrics": {key: value for key, value in self.values.items() if key not in COSTS},
            **{key: self.values.get(key) for key in COSTS},
            "seconds": self.seconds,
            "ended": self.ended,
            "error": self.error,
        }


def list_runs(folder: Path) -> list[ListedRun]:
    """All runs below a folder, those of studies too, by their paths."""
    if not folder.is_dir():
        raise RecordError(f"runs are looked for below a folder, however {folder} is none")
    return [look_at(record) for record in find_runs(folder)]


def find_runs(folder: Path) -> Iterator[RunRecord]:
    """Every run folder at or below a folder; hidden folders and links are passed over."""
    for path, folders, files in os.walk(folder):
        if RunRecord.CONFIG in files and _is_run(Path(path) / RunRecord.CONFIG):
            folders.clear()
            yield RunRecord(Path(path))
        folders[:] = sorted(name for name in folders if not name.startswith("."))


def _is_run(config: Path) -> bool:
    try:
        with config.open(encoding="utf-8", errors="replace") as file:
            return file.readline().rstrip("\n") == RunRecord.MARK
    except OSError:
        return False


def look_at(record: RunRecord) -> ListedRun:
    """What a run's files say; a damaged file is told, not raised."""
    state, config, status = state_of(record), None, {}
    try:
        config, status = record.config, record.status or {}
        values = _test_values(record) if state == "finished" else {}
    except RecordError as error:
        return ListedRun(record, DAMAGED, config, error=str(error))
    if state == UNFINISHED and record.is_busy:
        state = RUNNING
    epochs = config.train.epochs if state == "finished" else _num_epochs(record)
    times = status.get("seconds"), status.get("ended")
    return ListedRun(record, state, config, epochs, values, *times, status.get("error"))


def _test_values(record: RunRecord) -> dict[str, float]:
    report = record.report("test")
    try:
        item = next(item for item in report["by_exits"] if item["exits"] == report["exits"])
        return {**item["metrics"], **{key: item[key] for key in COSTS if key in item}}
    except (KeyError, TypeError, StopIteration):
        what = f"{record.path / record.METRICS} must hold what was measured at the trained number of exits"
        raise RecordError(f"{what}, however it does not: {record.ADVICE}") from None


def _num_epochs(record: RunRecord) -> int:
    """Rows of the history, which are only counted."""
    path = record.path / record.HISTORY
    return max(0, path.read_bytes().count(b"\n") - 1) if path.is_file() else 0


def select_runs(
    runs: Sequence[ListedRun], states: Sequence[str] | None = None, methods: Sequence[str] | None = None
) -> list[ListedRun]:
    """Those in one of the states and of one of the methods, which may be given by class, `EE`; None for all.

    A method is known if any of the runs is of it.
    """
    names = sorted({name for run in runs for name in _names(run)})
    for name in states or ():
        _check_known("a state", name, RUN_STATES)
    for name in (methods or ()) if names else ():
        _check_known("a method of these runs", name, names)
    return [
        run
        for run in runs
        if (states is None or run.state in states) and (methods is None or not _names(run).isdisjoint(methods))
    ]


def _names(run: ListedRun) -> set[str]:
    return {run.config.method.name, kind_of(run.config)} if run.config else set()


def sort_runs(runs: Sequence[ListedRun], column: str) -> list[ListedRun]:
    """By a text, or by a number with the best first; equals stay as they are.

    Runs without a number, or with one that is not finite, come last.
    """
    known = numbers()
    _check_known("what runs are sorted by", column, (*TEXTS, *known))
    sign = -1 if column in known and known[column].maximise else 1
    keyed = [(run, _sortable(value_of(run, column))) for run in runs]
    there = [(run, value) for run, value in keyed if value is not None]
    there.sort(key=lambda pair: pair[1] if column in TEXTS else sign * pair[1])
    return [run for run, _ in there] + [run for run, value in keyed if value is None]


def _sortable(value: Any) -> Any:
    """A value that has a place among others; None of a number that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def value_of(run: ListedRun, column: str) -> Any:
    """What a run has in a column; None where it has nothing."""
    return run.values.get(column, run.describe().get(column))


def _check_known(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise ConfigError(f"{what} must be one of {', '.join(known)}; got {name!r}{did_you_mean(name, known)}")
