"""Who else is told of a run's epochs: event files for TensorBoard, a view of its history and never a source.

Light to import: neither torch nor, before it is asked for, tensorboard.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any, Protocol

from sae.core.errors import RecordError
from sae.records.run import RunRecord

Row = Mapping[str, float]

TAGS = ((r"theta_(\d+)_(\d+)", r"theta/input_\1/exit_\2"), (r"val_(.+)", r"val/\1"))
SCHEDULES = ("lr", "temperature", "kl_weight", "repeat_fraction")


class Tracker(Protocol):
    """Something that keeps a view of the history of a run."""

    def epochs(self, record: RunRecord, history: Sequence[Row]) -> AbstractContextManager[Callable[[Row], None]]:
        """Begin with the rows that are there; the context gives a function to be called with every new one."""

    def write(self, record: RunRecord) -> bool:
        """The view of what a run has recorded so far, whoever trained it; returns whether there is one now."""


class Untracked:
    """Keeps nothing."""

    @contextmanager
    def epochs(self, record: RunRecord, history: Sequence[Row]) -> Iterator[Callable[[Row], None]]:
        """A function that does nothing."""
        del record, history
        yield lambda _: None

    def write(self, record: RunRecord) -> bool:
        """Nothing."""
        del record
        return False


UNTRACKED = Untracked()


class TensorBoard:
    """Event files in the folder `tensorboard` of a run, a scalar for each column of the history.

    They are always made anew from the history, so that no epoch is in them twice, whatever was
    interrupted and whether or not earlier epochs were tracked. TensorBoard keeps single
    precision; the history has the numbers in full.
    """

    def __init__(self) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._events, self._summaries, self._open = event_pb2, summary_pb2, EventFileWriter

    @contextmanager
    def epochs(self, record: RunRecord, history: Sequence[Row]) -> Iterator[Callable[[Row], None]]:
        """Write the rows that are there; the context gives a function that adds one."""
        with _said_in_our_words(record):
            record.clear_events()
            writer = self._open(str(record.path / record.TENSORBOARD))
        with closing(writer):
            with _said_in_our_words(record):
                writer.add_event(self._start())
                for row in history:
                    writer.add_event(self._event(row))
                writer.flush()

            def add(row: Row) -> None:
                with _said_in_our_words(record):
                    writer.add_event(self._event(row))
                    writer.flush()

            yield add

    def write(self, record: RunRecord) -> bool:
        """Event files of what a run has recorded; none where it has no history, as a derived one."""
        history = record.history()
        if history:
            with self.epochs(record, history):
                pass
        return bool(history)

    def _start(self) -> Any:
        """Tells a TensorBoard that is looking on to forget what it has read of the file before this one."""
        log = self._events.SessionLog(status=self._events.SessionLog.START)
        return self._events.Event(wall_time=time.time(), step=1, session_log=log)

    def _event(self, row: Row) -> Any:
        values = [
            self._summaries.Summary.Value(tag=tag_of(name), simple_value=value)
            for name, value in row.items()
            if name != "epoch"
        ]
        summary = self._summaries.Summary(value=values)
        return self._events.Event(wall_time=time.time(), step=int(row["epoch"]), summary=summary)


def tag_of(column: str) -> str:
    """Where TensorBoard shows a column of the history: its group, then its name.

    Example:
        >>> [tag_of(column) for column in ("loss", "val_nll", "theta_0_3", "lr")]
        ['train/loss', 'val/nll', 'theta/input_0/exit_3', 'schedule/lr']
    """
    for pattern, tag in TAGS:
        if re.fullmatch(pattern, column):
            return re.sub(pattern, tag, column)
    return f"schedule/{column}" if column in SCHEDULES else f"train/{column}"


@contextmanager
def _said_in_our_words(record: RunRecord) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = record.path / record.TENSORBOARD
        raise RecordError(f"event files must be writable to {where}, however they are not ({error.strerror})") from None
