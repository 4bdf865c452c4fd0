"""Progress with time left on a terminal; nothing where nobody looks."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class ProgressDisplay(Protocol):
    """Something that can show how many steps of a run are done."""

    def steps(self, name: str, total: int, done: int) -> AbstractContextManager[Callable[[], None]]:
        """Show progress for a while; the context gives a function to be called after every step."""


class Silent:
    """Shows nothing."""

    @contextmanager
    def steps(self, name: str, total: int, done: int) -> Iterator[Callable[[], None]]:
        """A counter that does not count."""
        del name, total, done
        yield lambda: None


class Bar:
    """A bar with time left on standard error; nothing if that is not a terminal."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)

    @contextmanager
    def steps(self, name: str, total: int, done: int) -> Iterator[Callable[[], None]]:
        """A bar that lives as long as the context."""
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
