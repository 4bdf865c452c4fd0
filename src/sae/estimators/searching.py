"""A search inside `fit`, in a temporary folder, which returns the best settings."""

import csv
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sae.analysis.selection import select
from sae.config.run import RunConfig
from sae.config.settings import Layer
from sae.core.errors import ConfigError, NothingFoundError
from sae.data.frames import as_texts
from sae.estimators.fitting import Rows
from sae.records.study import StudyRecord
from sae.search.driver import Budget, Driver
from sae.search.executors import Executor
from sae.search.executors.local import InlineExecutor, LocalExecutor
from sae.search.method_study import close_storage
from sae.search.run import open_method_studies, open_study, resolve_search

TARGET = "target"
TRIALS = re.compile(r"(\d+) trials?")
OBJECTIVE = "nll"
"""The objective of the search, on its validation rows: users of an estimator want quality, not a cheap network."""


@dataclass(frozen=True)
class Trial:
    """A configuration that the search tried.

    Attributes:
        settings: Its settings in short.
        eval_exits: The number of exits with which it is best.
        nll: Negative log-likelihood on the validation rows of the search.
        seconds: Its training time.
    """

    settings: str
    eval_exits: int
    nll: float
    seconds: float


@dataclass(frozen=True)
class Found:
    """The result of a search.

    Attributes:
        config: Settings of the best trial.
        eval_exits: K′ with which it is best.
        trials: All trials that finished, the best first.
    """

    config: RunConfig
    eval_exits: int
    trials: list[Trial]

    @property
    def layer(self) -> Layer:
        """The settings that a search chooses: those of the method and the backbone."""
        dumped = self.config.model_dump(mode="json")
        return {"method": dumped["method"], "backbone": dumped["backbone"]}


def budget_of(search: object) -> Layer:
    """Return the budget of a search: a number is seconds, `"20 trials"` is a number of trials.

    Example:
        >>> budget_of(90), budget_of("20 trials")
        ({'hours': 0.025}, {'trials': 20})
    """
    found = TRIALS.fullmatch(search.strip()) if isinstance(search, str) else None
    if found and int(found[1]) > 0:
        return {"trials": int(found[1])}
    if isinstance(search, int | float) and not isinstance(search, bool) and search > 0:
        return {"hours": search / 3600}
    raise ConfigError(f'search must be a number of seconds, or a text like "20 trials", got {search!r}')


def search_rows(rows: Rows, budget: Layer, layers: Sequence[Layer], seed: int, workers: int) -> Found:
    """Search on the rows, split by the seed like a file, and return the best settings by NLL.

    Args:
        rows: The rows; only those to train on are used, so that validation rows stay unseen.
        budget: The result of `budget_of`.
        layers: Settings of the user, which are not varied.
        seed: Seed of the search, its split and its runs.
        workers: Trials at once; a single one runs in this process.
    """
    with tempfile.TemporaryDirectory(prefix="sae-search-") as folder:
        data = {**_write(rows, Path(folder) / "table.csv"), "split_seed": seed}
        search = {"objectives": [OBJECTIVE], **budget}
        plan = resolve_search([*layers, {"data": data, "seed": seed, "search": search}])
        record = open_study(Path(folder) / "study", plan.study, plan.settings, force=False)
        studies = open_method_studies(record)
        executor: Executor = InlineExecutor() if workers == 1 else LocalExecutor(workers)
        try:
            with record.lock():
                limits = Budget(plan.settings.budget, plan.settings.hours, plan.settings.trials)
                Driver(record, studies, plan.spec, executor, limits).run()
        finally:
            executor.close()
            close_storage(studies)
        return _best(record)


def _best(record: StudyRecord) -> Found:
    """Return the trial with the lowest NLL at any number of exits, and the list of all trials."""
    try:
        selection = select(record, names=[OBJECTIVE])
    except NothingFoundError as error:
        raise ConfigError(f"search must give time for at least one trial, but {error}") from None
    best = min(selection.candidates, key=lambda item: item.values[OBJECTIVE])
    by_trial: dict[str, Trial] = {}
    for item in sorted(selection.candidates, key=lambda item: item.values[OBJECTIVE]):
        status = item.run.status
        seconds = (status and status.seconds) or 0.0
        by_trial.setdefault(item.label, Trial(item.config.summary, item.eval_exits, item.values[OBJECTIVE], seconds))
    return Found(best.config, best.eval_exits, list(by_trial.values()))


def _write(rows: Rows, path: Path) -> Layer:
    """Write the training rows as a CSV file with plain column names; return how to read it."""
    named = {f"x{index}": column for index, column in enumerate(rows.columns.values())}
    cells = [as_texts(column)[rows.train] for column in named.values()]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        targets = rows.targets[rows.train].reshape(len(rows.train), -1).T.tolist()
        names = [f"{TARGET}{index}" for index in range(len(targets))]
        writer.writerow([*named, *names])
        writer.writerows(zip(*cells, *(map(repr, values) for values in targets), strict=True))
    return {
        "name": str(path),
        "task": rows.goal.task,
        "target": names[0] if rows.targets.ndim == 1 else names,
        "categories": [name for name, column in named.items() if not column.is_numeric],
        "dates": [name for name, column in named.items() if column.is_date],
    }
