"""Progress bars with the time left, for terminals only."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class ProgressDisplay(Protocol):
    """A display of how many steps of a run are done."""

    def steps(self, name: str, total: int, done: int) -> AbstractContextManager[Callable[[], None]]:
        """Show progress within the context, which gives a function to call after every step."""


class Silent:
    """A display that shows nothing."""

    @contextmanager
    def steps(self, name: str, total: int, done: int) -> Iterator[Callable[[], None]]:
        """Give a function that does nothing."""
        del name, total, done
        yield lambda: None


class Bar:
    """A bar with the time left on standard error, if that is a terminal."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)

    @contextmanager
    def steps(self, name: str, total: int, done: int) -> Iterator[Callable[[], None]]:
        """Show a bar within the context."""
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps,"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
        )
        with Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as bar:
            task = bar.add_task(name, total=total, completed=done)
            yield lambda: bar.advance(task)


SILENT = Silent()
