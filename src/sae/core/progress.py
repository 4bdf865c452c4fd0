"""Progress bars with the time left, for terminals only."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol


class Advance(Protocol):
    """A function to call after one or several steps."""

    def __call__(self, count: int = 1, /) -> None:
        """Count the steps as done."""


class ProgressDisplay(Protocol):
    """A display of how many steps of some work are done."""

    def steps(self, name: str, total: int, done: int = 0, unit: str = "steps") -> AbstractContextManager[Advance]:
        """Show progress within the context, which gives a function to call after every step."""


class Silent:
    """A display that shows nothing."""

    @contextmanager
    def steps(self, name: str, total: int, done: int = 0, unit: str = "steps") -> Iterator[Advance]:
        """Give a function that does nothing."""
        del name, total, done, unit
        yield lambda _count=1: None


class Bar:
    """A bar with the time left on standard error, if that is a terminal."""

    @contextmanager
    def steps(self, name: str, total: int, done: int = 0, unit: str = "steps") -> Iterator[Advance]:
        """Show a bar within the context."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        if not console.is_terminal:  # rich before 15 would print an empty line
            yield lambda _count=1: None
            return
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(f"{unit},"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(name, total=total, completed=done)
            yield lambda count=1: bar.advance(task, count)


SILENT = Silent()
LEAST_SHOWN = 1000
"""Shorter readings show no bar: it would only flicker."""
_reading_display: ContextVar[Callable[[], ProgressDisplay]] = ContextVar("_reading_display", default=Silent)


@contextmanager
def showing_reading(make_display: Callable[[], ProgressDisplay]) -> Iterator[None]:
    """Show the progress of reading data within the context."""
    token = _reading_display.set(make_display)
    try:
        yield
    finally:
        _reading_display.reset(token)


def reading(name: str, total: int, unit: str) -> AbstractContextManager[Advance]:
    """Return a context that shows the progress of reading data, if `showing_reading` asked for it.

    Args:
        name: Name of the data.
        total: Number of steps.
        unit: Unit of a step.
    """
    display = _reading_display.get()() if total >= LEAST_SHOWN else SILENT
    return display.steps(name, total, unit=unit)
