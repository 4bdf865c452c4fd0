"""What a worker does: train a configuration into its folder. A pure function of its job, safe to repeat."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sae.analysis.candidates import SHIFTED_TEST, SHIFTED_VALIDATION
from sae.config.run import RunConfig
from sae.core.errors import BusyError, DataError, DivergedError, MissingExtraError, RecordError, SaeError
from sae.records.run import RunRecord


@dataclass(frozen=True)
class Job:
    """A run to be brought to its end, or to a rung.

    Attributes:
        name: As users see it, `sae/12`.
        config: How to train.
        folder: The run folder; what is there already is not done again.
        until: Pause after this epoch; None trains to the end.
        source: An ensemble's run whose first members may be taken instead of training them again.
        shift: Whether to evaluate on the 95 corrupted test sets.
        shift_objective: Whether to evaluate on the corrupted validation sets of objectives.
        latency: Whether to measure how long the exported network takes.
    """

    name: str
    config: RunConfig
    folder: Path
    until: int | None = None
    source: Path | None = None
    shift: bool = False
    shift_objective: bool = False
    latency: bool = False

    @property
    def run(self) -> RunRecord:
        """Its run folder."""
        return RunRecord(self.folder)

    @property
    def epochs_done(self) -> int:
        """Epochs that its history tells of; read while another process writes it."""
        try:
            with (self.folder / RunRecord.HISTORY).open(encoding="utf-8") as file:
                return max(0, sum(1 for _ in file) - 1)
        except OSError:
            return 0


@dataclass(frozen=True)
class Outcome:
    """What became of a job.

    Attributes:
        state: `finished`; `paused` at a rung; `failed` for good; `blocked` by something that is not
            the configuration's fault, such as a full disk; `lost` with its worker.
        error: What went wrong, if something did.
    """

    state: Literal["finished", "paused", "failed", "blocked", "lost"]
    error: str = ""


def run_job(job: Job) -> Outcome:
    """Do what is left to be done of a job."""
    try:
        record = _train(job)
        if not record.is_finished:
            return Outcome("paused")
        _measure_shift(job, record)
        _measure_latency(job, record)
    except DivergedError as error:  # now, or in an earlier session that did not come to tell it
        return Outcome("failed", (job.run.status or {}).get("error", str(error)))
    except BusyError as error:  # an earlier worker of the same job that is not gone yet
        return Outcome("lost", str(error))
    except (RecordError, DataError, MissingExtraError) as error:
        return Outcome("blocked", str(error))
    except OSError as error:
        return Outcome("blocked", f"{job.folder}: {error}")
    except Exception as error:
        message = str(error) if isinstance(error, SaeError) else f"{type(error).__name__}: {error}"
        return _failed(job, message)
    return Outcome("finished")


def _train(job: Job) -> RunRecord:
    from sae.training.run import derive, train

    if job.source is not None and RunRecord(job.source).is_finished:
        return derive(job.config, job.folder, job.source)
    return train(job.config, job.folder, until=job.until)


def _measure_shift(job: Job, record: RunRecord) -> None:
    from sae.training.run import measure_shift
    from sae.training.shift import ALL_SETS, OBJECTIVE_SETS

    wanted = (
        (job.shift_objective, "val", OBJECTIVE_SETS, SHIFTED_VALIDATION),
        (job.shift, "test", ALL_SETS, SHIFTED_TEST),
    )
    for is_wanted, split, sets, name in wanted:
        if is_wanted and not (record.path / name).exists():
            record.write_json(name, measure_shift(record.path, split, sets))


def _measure_latency(job: Job, record: RunRecord) -> None:
    if job.latency and not (record.path / record.LATENCY).exists():
        from sae.deploy.bench import measure_exits

        record.write_json(record.LATENCY, measure_exits(record).to_json())


def _failed(job: Job, message: str) -> Outcome:
    """Record an error that nobody foresaw, in training or in measuring, so that the run stays failed."""
    try:
        RunRecord.create(job.folder, job.config).end("failed", error=message)
    except RecordError as error:
        return Outcome("blocked", str(error))
    return Outcome("failed", message)
