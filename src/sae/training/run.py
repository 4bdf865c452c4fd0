"""The only assembler: from a config to a record, and from a record back to a network."""

import math
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from sae.config.run import EnsembleConfig, RunConfig
from sae.core.errors import ConfigError, DivergedError
from sae.core.version import __version__
from sae.data.batches import Preparation
from sae.data.catalogue import load, load_others
from sae.data.dataset import Dataset
from sae.methods import Method, build_method
from sae.records.run import RunRecord
from sae.training.checkpoint import (
    load_checkpoint,
    load_first_streams,
    load_model,
    save_checkpoint,
    save_model,
)
from sae.training.evaluator import curves, evaluate_calibrated, evaluate_split, metrics_at, validation_metrics
from sae.training.memory import keep_freed_memory
from sae.training.parallel import training
from sae.training.progress import SILENT, ProgressDisplay
from sae.training.shift import (
    ALL_SETS,
    CorruptedSet,
    check_images,
    check_same_shape,
    evaluate_ood,
    evaluate_shift,
)
from sae.training.tracking import UNTRACKED, Tracker
from sae.training.trainer import Progress, Trainer, pick_device


def train(
    config: RunConfig,
    out: Path,
    *,
    force: bool = False,
    processes: int = 1,
    until: int | None = None,
    display: ProgressDisplay = SILENT,
    tracker: Tracker = UNTRACKED,
) -> RunRecord:
    """Train, evaluate and record a run; continue it if it was interrupted, return it if it is there.

    Args:
        config: Everything that the result depends on.
        out: The run folder.
        force: Start over, whatever the folder holds of an earlier run.
        processes: How many may train the members of an ensemble at once; changes no number.
        until: Pause after this epoch, if the run is not further yet; what it is worth by then is in `interim.json`.
        display: Where progress is shown.
        tracker: What is told of every epoch; changes no number.
    """
    keep_freed_memory()
    with torch_threads(config.train.threads):
        dataset = load(config.data, config.seed)
        method = build_method(config.method, config.backbone, dataset.spec, config.seed)
        with training(method, dataset, config, processes) as trainer:
            record = RunRecord.create(out, config, force=force)
            with record.lock():
                if _has_ended(record):
                    tracker.write(record)
                else:
                    epochs = config.train.epochs
                    _train_and_record(trainer, record, min(until or epochs, epochs), display, tracker)
    return record


def derive(config: RunConfig, out: Path, source: Path) -> RunRecord:
    """Record an ensemble whose members are the first of a larger one that is trained already.

    A member is the same in ensembles of any size, so that this is what `train` would record, but
    for the history of the epochs.

    Args:
        config: Of the smaller ensemble, or of the standard network.
        out: Its run folder.
        source: The run folder of the larger ensemble; all but the number of members must be the same.
    """
    larger = RunRecord.open(source)
    if not isinstance(larger.config.method, EnsembleConfig):
        raise ConfigError(f"members can be taken from an ensemble, however {source} holds {larger.config.method.name}")
    share = getattr(config.method, "members", 1) / larger.config.method.members
    with torch_threads(config.train.threads):
        dataset = load(config.data, config.seed)
        method = build_method(config.method, config.backbone, dataset.spec, config.seed)
        record = RunRecord.create(out, config)
        with record.lock():
            if not _has_ended(record):
                load_first_streams(larger, method.to(pick_device(config.train.device)))
                _record_results(method, dataset, _preparation(dataset, config.train.device), record)
                seconds = (larger.status or {}).get("seconds", 0.0) * share
                record.end("finished", seconds=round(seconds, 3), derived_from=source.name, **_versions())
    return record


def evaluate(
    run: Path,
    split: str = "test",
    eval_exits: int | None = None,
    *,
    shift: bool = False,
    ood: str | None = None,
    calibrate: bool = False,
    device: str | None = None,
    display: ProgressDisplay = SILENT,
) -> dict[str, Any]:
    """Evaluate a finished run again from its weights, at every number of exits.

    Args:
        run: The run folder.
        split: val or test.
        eval_exits: K′ to report; by default the trained K.
        shift: Also on the 95 corrupted versions of the split.
        ood: Also how well uncertainty tells samples of this other set, by name or path, from the run's own.
        calibrate: Also after temperature scaling fitted on the validation split.
        device: Where to compute; by default where the run was trained.
        display: Where progress is shown.
    """
    record = RunRecord.open(run)
    with torch_threads(record.config.train.threads):
        method, dataset = restore(record, device)
        others = load_others(ood) if ood else None
        if shift:
            check_images(dataset)
        if others is not None:
            check_same_shape(dataset, others)
        chosen = method.resolve_exits(eval_exits)
        prepare = _preparation(dataset, device or record.config.train.device)
        report = {"run": str(run), "split": split, **evaluate_split(method, dataset, split, prepare)}
        report |= {"exits": chosen, "metrics": metrics_at(report["by_exits"], chosen)}
        if calibrate:
            report |= evaluate_calibrated(method, dataset, split, prepare, report["by_exits"], chosen)
        report["shift"] = evaluate_shift(method, dataset, split, prepare, chosen, display) if shift else None
        if others is not None:
            report["ood"] = {"set": ood, **evaluate_ood(method, dataset, split, others, prepare, chosen)}
    return report


def measure_shift(
    run: Path, split: str, sets: Sequence[CorruptedSet] = ALL_SETS, display: ProgressDisplay = SILENT
) -> dict[str, Any]:
    """Evaluate a finished run on corrupted versions of a split alone; see `evaluate_shift`."""
    record = RunRecord.open(run)
    with torch_threads(record.config.train.threads):
        method, dataset = restore(record)
        prepare = _preparation(dataset, record.config.train.device)
        return evaluate_shift(method, dataset, split, prepare, method.max_exits, display, sets)


def restore(record: RunRecord, device: str | None = None) -> tuple[Method, Dataset]:
    """The trained method of a finished run, and the data it was trained on.

    Args:
        record: The run.
        device: Where to put it; by default where it was trained.
    """
    config = record.config
    dataset = load(config.data, config.seed)
    method = build_method(config.method, config.backbone, dataset.spec, config.seed)
    load_model(record, method)
    return method.to(pick_device(device or config.train.device)).eval(), dataset


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """A number of CPU threads for a while; it is part of what fixes a run's numbers."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _has_ended(record: RunRecord) -> bool:
    """Whether there is nothing left to do; a run that failed stays failed."""
    status = record.status
    if status:
        record.tidy()
    if status and status["state"] != "finished":
        reason = status.get("error", "the reason was not recorded")
        raise DivergedError(f"{record.path} holds a {status['state']} run, start over with --force: {reason}")
    return status is not None


def _train_and_record(
    trainer: Trainer, record: RunRecord, until: int, display: ProgressDisplay, tracker: Tracker
) -> None:
    try:
        progress = _train(trainer, record, until, display, tracker)
    except DivergedError as error:
        record.end("failed", error=str(error), **_versions())
        raise
    if progress.epoch < trainer.config.train.epochs:
        return
    trainer.method.progress = 1.0  # also after a run of one step, which ends where it starts
    _record_results(trainer.method, trainer.dataset, trainer.prepare, record)
    record.end("finished", seconds=round(progress.seconds, 3), **_versions())


def _train(trainer: Trainer, record: RunRecord, until: int, display: ProgressDisplay, tracker: Tracker) -> Progress:
    """All epochs that are not done yet, with a checkpoint after each."""
    method, dataset, prepare = trainer.method, trainer.dataset, trainer.prepare
    progress = load_checkpoint(record, trainer)
    done = progress.epoch * trainer.steps_per_epoch
    with (
        display.steps(record.path.name, trainer.num_steps, done) as on_step,
        tracker.epochs(record, progress.history) as on_epoch,
    ):
        for epoch in range(progress.epoch, until):
            start = time.perf_counter()
            terms = trainer.train_epoch(epoch, on_step)
            metrics = validation_metrics(method, dataset, prepare)
            if not all(map(math.isfinite, metrics.values())):  # the last update may be the one that ruins the weights
                raise trainer.diverged(f"predictions must stay finite, however they are not after epoch {epoch + 1}")
            validation = {f"val_{key}": value for key, value in metrics.items()}
            progress.history.append({"epoch": epoch + 1, **terms, **validation, **method.observables()})
            progress.epoch = epoch + 1
            progress.seconds += time.perf_counter() - start
            record.write_rows(record.HISTORY, progress.history)
            save_checkpoint(record, trainer, progress)
            on_epoch(progress.history[-1])
    if progress.epoch < trainer.config.train.epochs:
        report = evaluate_split(method, dataset, "val", prepare)
        record.write_json(record.INTERIM, {"epoch": progress.epoch, "seconds": progress.seconds, "val": report})
    return progress


def _record_results(method: Method, dataset: Dataset, prepare: Preparation, record: RunRecord) -> None:
    save_model(record, method)
    splits = ("val", "test")
    record.write_json(record.METRICS, {name: evaluate_split(method, dataset, name, prepare) for name in splits})
    record.write_json(record.CURVES, {name: curves(method, dataset.split(name), prepare) for name in splits})


def _preparation(dataset: Dataset, device: str) -> Preparation:
    return Preparation(dataset.normalisation, len(dataset.spec.shape), pick_device(device))


def _versions() -> dict[str, Any]:
    return {"versions": {"sae": __version__, "torch": torch.__version__, "python": platform.python_version()}}
