"""Trainings that are long enough: again with twice the epochs, as long as the best epoch is among the last.

Schedules need their end beforehand, so a training never becomes longer; another one from the beginning takes its place.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sae.config.run import RunConfig
from sae.config.settings import Layer
from sae.core.errors import DivergedError
from sae.core.progress import SILENT, ProgressDisplay
from sae.data.catalogue import find_entry
from sae.data.dataset import Dataset
from sae.data.defaults import MOST_TIMES, at_length, is_longer
from sae.data.training_profile import DataProfile
from sae.records.folder import LENGTHS
from sae.records.run import Lengths, RunRecord
from sae.training.run import train
from sae.training.tracking import RunCallback

LATE = 0.1
"""Share of the epochs at the end; if the best one is there, the training was perhaps too short."""
FEWEST_EPOCHS = 3
"""Fewest epochs of which the best can be late."""


@dataclass(frozen=True)
class Training:
    """What all trainings of one network share.

    Attributes:
        config: The settings of the first, shortest one.
        force: Whether to delete earlier runs in its folders and start over.
        processes: How many processes may train the members of an ensemble.
        display: Where progress is shown.
        callbacks: Called after every epoch.
        on_data: Called with the data and their profile once they are read.
        say: Prints a line about a longer training.
    """

    config: RunConfig
    force: bool = False
    processes: int = 1
    display: ProgressDisplay = SILENT
    callbacks: Sequence[RunCallback] = ()
    on_data: Callable[[Dataset, DataProfile | None], None] = lambda *_: None
    say: Callable[[str], None] = lambda _: None

    def run(self, config: RunConfig, out: Path) -> RunRecord:
        """Train one run, or return it if it is finished."""
        return train(
            config,
            out,
            force=self.force,
            processes=self.processes,
            display=self.display,
            callbacks=self.callbacks,
            on_data=self.on_data,
        )


def may_train_longer(config: RunConfig, *layers: Layer) -> bool:
    """Return whether a training may become longer than suggested: on own data, if no layer sets its length.

    Args:
        config: The resolved settings.
        layers: The layers that were given.
    """
    sections = (layer.get("train") for layer in layers)
    is_set = any("epochs" in section for section in sections if isinstance(section, Mapping))
    is_own = find_entry(config.data.name, config.data.kind).count is not None
    return is_own and config.train.patience > 0 and not is_set


def train_enough(training: Training, out: Path) -> RunRecord:
    """Train a run with as many epochs as it needs; the same as `train` with that number, whatever was tried before.

    Shorter and longer trainings are kept in a folder below until the end; a command that was killed continues there.
    """
    record, lengths = RunRecord(out), out / LENGTHS
    has_begun = record.has(record.CONFIG) and not training.force
    if has_begun and (record.has(record.STATUS) or not lengths.exists()):  # finished, or of an older version
        found = record.read_config()
        record = training.run(found if is_longer(found, training.config) else training.config, out)
    else:
        record.check_room(training.config, force=True)
        record = _adopt(try_lengths(training, lengths), out, force=training.force)
    for folder in lengths.glob("*"):
        if RunRecord(folder).is_made():
            RunRecord(folder).remove()
    with suppress(OSError):  # it is missing, or holds files that are not ours
        lengths.rmdir()
    return record


def try_lengths(training: Training, folder: Path) -> dict[int, RunRecord]:
    """Train with twice the epochs until the best epoch is not late, or until this is no longer better.

    Returns:
        The runs by their number of epochs, the shortest first.
    """
    epochs, runs = training.config.train.epochs, dict[int, RunRecord]()
    while True:
        try:
            run = training.run(at_length(training.config, epochs), folder / str(epochs))
        except DivergedError:
            if not runs:
                raise
            return runs
        runs[epochs] = run
        losses = [_loss(record) for record in runs.values()]
        best = late_best(run.read_history(), epochs)
        if best is None or losses[-1] > min(losses) or 2 * epochs > MOST_TIMES * training.config.train.epochs:
            return runs
        training.say(f"of {epochs:,} epochs the best on validation was number {best:,}: again, with {2 * epochs:,}")
        epochs *= 2


def is_still_improving(record: RunRecord) -> int | None:
    """Return the best epoch of a run if it is late and no longer training was tried, else None."""
    epochs, tried = record.read_config().train.epochs, record.read_lengths()
    return None if tried and max(tried.nll) > epochs else late_best(record.read_history(), epochs)


def late_best(history: Sequence[Mapping[str, float]], epochs: int) -> int | None:
    """Return the epoch that was the best on validation if it is in the last tenth of all, else None.

    Example:
        >>> [late_best([{"val_nll": 0.5}, {"val_nll": 0.4}, {"val_nll": last}], epochs=3) for last in (0.3, 0.6)]
        [3, None]
    """
    losses = [row.get("val_nll", math.inf) for row in history]
    best = losses.index(min(losses)) + 1 if losses else 0
    return best if len(losses) == epochs >= FEWEST_EPOCHS and best > (1 - LATE) * epochs else None


def _loss(record: RunRecord) -> float:
    found = record.read_evaluation()
    return found.val.at(found.best_exits).metrics["nll"]


def best_length(runs: Mapping[int, RunRecord]) -> int:
    """Return the number of epochs with the lowest validation loss."""
    return min(runs, key=lambda epochs: _loss(runs[epochs]))


def _adopt(runs: Mapping[int, RunRecord], out: Path, *, force: bool) -> RunRecord:
    """Copy the best run into the folder that was asked for; the status comes last."""
    chosen, seconds = runs[best_length(runs)], 0.0
    for run in runs.values():
        status = run.read_status()
        seconds += (status and status.seconds) or 0.0
    record = RunRecord.create(out, chosen.read_config(), force=force)
    with record.lock():
        for path in chosen.own_files():
            name = str(path.relative_to(chosen.path))
            if path.is_file() and name not in (record.CONFIG, record.STATUS):
                record.write_bytes(name, path.read_bytes())
        record.write_json(record.LENGTHS, Lengths(nll={length: _loss(run) for length, run in runs.items()}).to_json())
        status = chosen.read_status()
        assert status is not None, "a run that is compared is finished"
        record.end("finished", seconds=seconds, epochs=status.epochs, versions=status.versions)
    return record
