"""Callbacks that follow a run, and event files for TensorBoard as one of them.

The files are a view of the history and never a source. This module imports neither torch nor,
before `TensorBoard` is made, tensorboard; `torch.utils.tensorboard` would import both.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Literal

from sae.core.errors import ConfigError, RecordError, SaeError
from sae.core.progress import Bar
from sae.records.run import RunRecord

Row = Mapping[str, float]
"""An epoch of the history, by column; `epoch` counts from 1."""
State = Literal["finished", "stopped", "failed", "paused", "interrupted"]
"""How a training ends: with the state in `status.json`, paused after a given epoch, or by any other error."""

TAGS = ((r"theta_(\d+)_(\d+)", r"theta/input_\1/exit_\2"), (r"val_(.+)", r"val/\1"))
SCHEDULES = ("lr", "temperature", "kl_weight", "repeat_fraction")
CALLBACK_METHODS = ("on_run_start", "on_epoch", "on_run_end")


class RunCallback:
    """An observer of runs: subclass it, and override the methods that you need.

    A callback changes no number of the run. An error in a callback ends the training, which can be continued: every
    epoch is saved before callbacks are called. `on_run_end` is called for each callback that was started,
    whatever happened.
    """

    def on_run_start(self, record: RunRecord, history: Sequence[Row]) -> None:
        """Handle the beginning of a run.

        Args:
            record: The run folder; `record.read_config()` is its settings.
            history: The finished epochs: none for a new run, all for a finished one.
        """

    def on_epoch(self, record: RunRecord, row: Row) -> None:
        """Handle a finished epoch, a row of the history."""

    def on_run_end(self, record: RunRecord, state: State) -> None:
        """Handle the end of the training; `record.read_evaluation()` gives the results of a finished run."""


class EpochNotes(RunCallback):
    """Notes of the last epoch for the lines of a log.

    Args:
        bar: The display that writes the lines.
    """

    def __init__(self, bar: Bar) -> None:
        self.bar, self.epochs = bar, 0

    def on_run_start(self, record: RunRecord, history: Sequence[Row]) -> None:
        """Forget the epochs of another run."""
        self.bar.note, self.epochs = None, record.read_config().train.epochs
        if history:
            self.on_epoch(record, history[-1])

    def on_epoch(self, record: RunRecord, row: Row) -> None:
        """Note the epoch and its validation NLL."""
        del record
        self.bar.note = epoch_note(row, self.epochs)


def epoch_note(row: Row, epochs: int) -> str:
    """Return an epoch of the history in words.

    Example:
        >>> epoch_note({"epoch": 3, "val_nll": 0.51234}, 20)
        'epoch 3 of 20, validation NLL 0.5123'
    """
    return f"epoch {row['epoch']:.0f} of {epochs}, validation NLL {row['val_nll']:.4g}"


def check_callbacks(callbacks: Sequence[RunCallback]) -> None:
    """Refuse objects that are not callbacks, before any work."""
    for callback in callbacks:
        if isinstance(callback, type) or not all(callable(getattr(callback, name, None)) for name in CALLBACK_METHODS):
            raise ConfigError(
                f"callbacks must be objects with the methods {', '.join(CALLBACK_METHODS)}, got {callback!r}: "
                f"subclass sae.RunCallback, and give an object of your class"
            )


@contextmanager
def follow(
    callbacks: Sequence[RunCallback], record: RunRecord, history: Sequence[Row]
) -> Iterator[Callable[[Row], None]]:
    """Call callbacks at the beginning and the end of a run; the context gives a function to call with every new row."""
    started: list[RunCallback] = []

    def on_epoch(row: Row) -> None:
        for callback in callbacks:
            with _naming(callback, f"on_epoch({row['epoch']:.0f})"):
                callback.on_epoch(record, dict(row))

    try:
        for callback in callbacks:
            with _naming(callback, "on_run_start"):
                callback.on_run_start(record, [dict(row) for row in history])
            started.append(callback)
        yield on_epoch
    except BaseException as error:
        for problem in _end(started, record, "interrupted"):
            error.add_note(_describe(problem))
        raise
    problems = _end(started, record, "paused")
    for problem in problems[1:]:
        problems[0].add_note(_describe(problem))
    if problems:
        raise problems[0]


def _end(started: Sequence[RunCallback], record: RunRecord, otherwise: State) -> list[Exception]:
    """Call all callbacks at the end; return their errors."""
    status, problems = record.read_status(), []
    for callback in started:
        try:
            with _naming(callback, "on_run_end"):
                callback.on_run_end(record, status.state if status else otherwise)
        except Exception as error:
            problems.append(error)
    return problems


@contextmanager
def _naming(callback: RunCallback, method: str) -> Iterator[None]:
    """Add a note to an error that says where it comes from."""
    try:
        yield
    except SaeError:  # its message says enough
        raise
    except Exception as error:
        error.add_note(f"in {type(callback).__name__}.{method}; the same call continues the run")
        raise


def _describe(error: Exception) -> str:
    return "; ".join([f"then {type(error).__name__}: {error}", *getattr(error, "__notes__", ())])


class TensorBoard(RunCallback):
    """A callback that writes event files to the folder `tensorboard` of a run, a scalar per column of the history.

    The files are always rewritten from the history, so no epoch is in them twice, even if the run
    was interrupted or earlier epochs were not followed. TensorBoard has single precision; the
    history has the numbers in full.
    """

    def __init__(self) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._events, self._summaries, self._open = event_pb2, summary_pb2, EventFileWriter
        self._writer: EventFileWriter | None = None

    def on_run_start(self, record: RunRecord, history: Sequence[Row]) -> None:
        """Write the given rows; a run that ended without a history, such as a derived one, gets no files."""
        if not history and record.read_status() is not None:
            return
        with _naming_the_folder(record), ExitStack() as opened:
            record.clear_events()
            writer = opened.enter_context(closing(self._open(str(record.path / record.TENSORBOARD))))
            writer.add_event(self._start())
            for row in history:
                writer.add_event(self._event(row))
            writer.flush()
            opened.pop_all()  # it stays open
            self._writer = writer

    def on_epoch(self, record: RunRecord, row: Row) -> None:
        """Add a row."""
        assert self._writer is not None, "a run is started before its epochs"
        with _naming_the_folder(record):
            self._writer.add_event(self._event(row))
            self._writer.flush()

    def on_run_end(self, record: RunRecord, state: State) -> None:
        """Close the file."""
        del state
        writer, self._writer = self._writer, None
        if writer is not None:
            with _naming_the_folder(record):
                writer.close()

    def write(self, record: RunRecord) -> bool:
        """Write event files of a run's recorded history; return whether there was one."""
        history = record.read_history()
        if history:
            with follow([self], record, history):
                pass
        return bool(history)

    def _start(self) -> object:
        """Return the event that makes a running TensorBoard forget the previous file."""
        log = self._events.SessionLog(status=self._events.SessionLog.START)
        return self._events.Event(wall_time=time.time(), step=1, session_log=log)

    def _event(self, row: Row) -> object:
        values = [
            self._summaries.Summary.Value(tag=tag_of(name), simple_value=value)
            for name, value in row.items()
            if name != "epoch"
        ]
        summary = self._summaries.Summary(value=values)
        return self._events.Event(wall_time=time.time(), step=int(row["epoch"]), summary=summary)


def tag_of(column: str) -> str:
    """Return the TensorBoard tag of a column of the history: its group, then its name.

    Example:
        >>> [tag_of(column) for column in ("loss", "val_nll", "theta_0_3", "lr")]
        ['train/loss', 'val/nll', 'theta/input_0/exit_3', 'schedule/lr']
    """
    for pattern, tag in TAGS:
        if re.fullmatch(pattern, column):
            return re.sub(pattern, tag, column)
    return f"schedule/{column}" if column in SCHEDULES else f"train/{column}"


@contextmanager
def _naming_the_folder(record: RunRecord) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = record.path / record.TENSORBOARD
        raise RecordError(f"event files cannot be written to {where}: {error.strerror}") from None
