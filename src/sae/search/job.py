"""Jobs of workers: each trains one configuration into its folder.

A job is a pure function of its settings and is safe to repeat.
"""

import warnings
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Literal

from sae.config.run import RunConfig
from sae.config.study import ShiftSets
from sae.core.collection import import_for_good
from sae.core.errors import (
    BusyError,
    DataError,
    DataWarning,
    DivergedError,
    MissingExtraError,
    RecordError,
    RecordWarning,
    SaeError,
    UncutWarning,
)
from sae.core.registry import plugin_modules
from sae.core.trust import is_code_trusted, trust_code
from sae.records.run import RunRecord


@dataclass(frozen=True)
class Job:
    """A run to train to its end, or to a rung.

    Attributes:
        name: The name that users see, e.g. `sae/12`.
        config: The settings of the run.
        folder: The run folder; work that is already done there is not repeated.
        until: Pause after this epoch; None trains to the end.
        source: Run folder of an ensemble whose first members may be copied instead of trained again.
        shift: Whether to evaluate on the 95 corrupted test sets.
        val_sets: The corrupted validation sets to evaluate on, for choices under shift; None for none.
        latency: Whether to measure the latency of the exported network.
        predictions: Whether to keep the predictions for every sample.
        same_data_as: An earlier run of the study, whose data must be the same.
        plugins: Modules that have registered methods, backbones or metrics, which the worker imports first.
        trusts_code: Whether the worker may import code that the settings name.
    """

    name: str
    config: RunConfig
    folder: Path
    until: int | None = None
    source: Path | None = None
    shift: bool = False
    val_sets: ShiftSets | None = None
    latency: bool = False
    predictions: bool = False
    same_data_as: Path | None = None
    plugins: tuple[str, ...] = field(default_factory=plugin_modules)
    trusts_code: bool = field(default_factory=is_code_trusted)

    @property
    def run(self) -> RunRecord:
        """The record of its run folder."""
        return RunRecord(self.folder)

    def count_epochs(self) -> int:
        """Return the number of epochs in its history so far; another process may be writing it."""
        return self.run.count_epochs()


@dataclass(frozen=True)
class Outcome:
    """The end of a job.

    Attributes:
        state: `finished`; `paused` at a rung; `failed`, which stays; `blocked` by a cause outside the configuration,
            e.g. a full disk; `lost` with its worker.
        error: The error message, if any.
    """

    state: Literal["finished", "paused", "failed", "blocked", "lost"]
    error: str = ""


def run_job(job: Job) -> Outcome:
    """Do the part of a job that is not done yet."""
    try:
        for shown in (DataWarning, RecordWarning, UncutWarning):  # the process that submits jobs shows them
            warnings.simplefilter("ignore", shown)
        import_for_good("torch")
        trust_code(is_trusted=job.trusts_code)
        _import_plugins(job)
        record = _train(job)
        if not record.has_finished():
            return Outcome("paused")
        _measure_shift(job, record)
        _measure_latency(job, record)
        _keep_predictions(job)
    except DivergedError as error:  # now, or in an earlier session that ended before it reported the failure
        status = job.run.read_status()
        return Outcome("failed", (status and status.error) or str(error))
    except BusyError as error:  # an earlier worker with the same job has not ended yet
        return Outcome("lost", str(error))
    except (RecordError, DataError, MissingExtraError) as error:
        return Outcome("blocked", str(error))
    except OSError as error:
        return Outcome("blocked", f"{job.folder}: {error}")
    except Exception as error:
        message = str(error) if isinstance(error, SaeError) else f"{type(error).__name__}: {error}"
        return _failed(job, message)
    return Outcome("finished")


def _import_plugins(job: Job) -> None:
    for module in job.plugins:
        try:
            import_module(module)
        except ImportError as error:
            raise MissingExtraError(f"a worker must be able to import the plugin {module}: {error}") from None


def _train(job: Job) -> RunRecord:
    from sae.training.run import derive, train

    if job.source is not None and RunRecord(job.source).has_finished():
        return derive(job.config, job.folder, job.source)
    earlier = RunRecord(job.same_data_as) if job.same_data_as else None
    return train(job.config, job.folder, until=job.until, same_data_as=earlier)


def _measure_shift(job: Job, record: RunRecord) -> None:
    from sae.data.corruptions import ALL_SETS, OBJECTIVE_SETS
    from sae.training.run_evaluation import measure_shift

    if job.val_sets is not None and not record.has(record.SHIFT["val"]):
        sets = ALL_SETS if job.val_sets == "all" else OBJECTIVE_SETS
        record.write_json(record.SHIFT["val"], measure_shift(record.path, "val", sets).summary().to_json())
    if job.shift and not record.has(record.SHIFT["test"]):
        record.write_json(record.SHIFT["test"], measure_shift(record.path, "test", ALL_SETS).to_json())


def _measure_latency(job: Job, record: RunRecord) -> None:
    if job.latency and not record.has(record.LATENCY):
        from sae.deploy.bench import measure_exits

        record.write_json(record.LATENCY, measure_exits(record).to_json())


def _failed(job: Job, message: str) -> Outcome:
    """Record an unexpected error in the run folder, so that the run stays failed."""
    try:
        RunRecord.create(job.folder, job.config).end("failed", error=message)
    except RecordError as error:
        return Outcome("blocked", str(error))
    return Outcome("failed", message)


def _keep_predictions(job: Job) -> None:
    if job.predictions:
        from sae.training.predictions import keep_predictions

        keep_predictions(job.folder)
