"""Trackers of a run's history: event files for TensorBoard.

The files are a view of the history and never a source. This module imports neither torch nor,
before `TensorBoard` is made, tensorboard; `torch.utils.tensorboard` would import both.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Protocol

from sae.core.errors import RecordError
from sae.records.run import RunRecord

Row = Mapping[str, float]

TAGS = ((r"theta_(\d+)_(\d+)", r"theta/input_\1/exit_\2"), (r"val_(.+)", r"val/\1"))
SCHEDULES = ("lr", "temperature", "kl_weight", "repeat_fraction")


class Tracker(Protocol):
    """A writer of some view of a run's history."""

    def epochs(self, record: RunRecord, history: Sequence[Row]) -> AbstractContextManager[Callable[[Row], None]]:
        """Write the given rows; the context gives a function to call with every new row."""

    def write(self, record: RunRecord) -> bool:
        """Write the view of a run's recorded history; return whether there was a history."""


class Untracked:
    """A tracker that writes nothing."""

    @contextmanager
    def epochs(self, record: RunRecord, history: Sequence[Row]) -> Iterator[Callable[[Row], None]]:
        """Give a function that does nothing."""
        del record, history
        yield lambda _: None

    def write(self, record: RunRecord) -> bool:
        """Write nothing."""
        del record
        return False


UNTRACKED = Untracked()


class TensorBoard:
    """A tracker that writes event files to the folder `tensorboard` of a run, a scalar per column of the history.

    The files are always rewritten from the history, so no epoch is in them twice, even if the run
    was interrupted or earlier epochs were not tracked. TensorBoard has single precision; the
    history has the numbers in full.
    """

    def __init__(self) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._events, self._summaries, self._open = event_pb2, summary_pb2, EventFileWriter

    @contextmanager
    def epochs(self, record: RunRecord, history: Sequence[Row]) -> Iterator[Callable[[Row], None]]:
        """Write the given rows; the context gives a function that adds one."""
        with _naming_the_folder(record):
            record.clear_events()
            writer = self._open(str(record.path / record.TENSORBOARD))
        with closing(writer):
            with _naming_the_folder(record):
                writer.add_event(self._start())
                for row in history:
                    writer.add_event(self._event(row))
                writer.flush()

            def add(row: Row) -> None:
                with _naming_the_folder(record):
                    writer.add_event(self._event(row))
                    writer.flush()

            yield add

    def write(self, record: RunRecord) -> bool:
        """Write event files of a run's recorded history; a run without history, such as a derived one, gets none."""
        history = record.read_history()
        if history:
            with self.epochs(record, history):
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
