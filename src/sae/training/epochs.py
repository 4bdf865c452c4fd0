"""The epochs of a training: update the weights, measure on the validation split, stop early."""

import math
import time
from collections.abc import Callable, Iterator

from sae.data.batches import evaluation_batches
from sae.training.early_stopping import EarlyStopping, stream_losses
from sae.training.evaluator import member_outputs, validation_metrics
from sae.training.trainer import Progress, Trainer


def train_epochs(
    trainer: Trainer, progress: Progress, until: int, on_step: Callable[[], None] = lambda: None
) -> Iterator[dict[str, float]]:
    """Train the epochs that are not done yet, up to epoch `until` or where training stops early.

    Args:
        trainer: The trainer.
        progress: What was done before; it holds what is done here, too.
        until: Number of the last epoch.
        on_step: Called after every update.

    Yields:
        The row of each epoch in the history, when `progress` includes it.
    """
    for epoch in range(progress.epoch, until):
        if progress.stopping.has_stopped(epoch):
            return
        start = time.perf_counter()
        terms = trainer.train_epoch(epoch, on_step)
        with trainer.averaged():
            row = {"epoch": epoch + 1, **terms, **_validate(trainer, epoch + 1, progress.stopping)}
        columns = progress.history[0] if progress.history else row  # an older version may have measured less
        progress.history.append({key: row[key] for key in columns})
        progress.epoch = epoch + 1
        progress.seconds += time.perf_counter() - start
        yield progress.history[-1]


def _validate(trainer: Trainer, epoch: int, stopping: EarlyStopping) -> dict[str, float]:
    """Judge the network after an epoch; return its validation metrics and observables, for the history."""
    method, dataset = trainer.method, trainer.dataset
    outputs = member_outputs(method, evaluation_batches(dataset.val.inputs, trainer.prepare))
    metrics = validation_metrics(method, dataset, outputs)
    if not all(map(math.isfinite, metrics.values())):  # the last update may be the one that ruins the weights
        raise trainer.diverged(f"predictions must stay finite, but they are not after epoch {epoch}")
    settings = trainer.config.train
    if settings.keeps_best:
        stopping.update(method, epoch, stream_losses(method, outputs, dataset.val, settings.keep_by))
    return {**{f"val_{key}": value for key, value in metrics.items()}, **method.observables()}
