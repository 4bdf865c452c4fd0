"""Progress with the time left: a bar on a terminal, some lines in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol

from sae.core.wording import duration, rounded


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


FIRST_LINE, LONGER = 10.0, 1.5
"""Seconds before the first line in a log, and how much longer each is waited for than the one before: some twenty
lines in six hours."""


class Bar:
    """A bar with the time left on standard error; where that is no terminal, a line now and then.

    Attributes:
        note: What a line says instead of a number of steps, such as the epoch; None until something is known.
    """

    def __init__(self) -> None:
        self.note: str | None = None
        self._began = time.monotonic()
        self._wait = FIRST_LINE

    @contextmanager
    def steps(self, name: str, total: int, done: int = 0, unit: str = "steps") -> Iterator[Advance]:
        """Show a bar within the context."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        if not console.is_terminal:  # rich before 15 would print an empty line
            yield self._lines(name, total, done, unit)
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

    def _lines(self, name: str, total: int, done: int, unit: str) -> Advance:
        """Return what counts steps, and says now and then how far they are."""
        began, before, now_done = time.monotonic(), done, done

        def advance(count: int = 1, /) -> None:
            nonlocal now_done
            now_done += count
            now = time.monotonic()
            if now - self._began < self._wait or now_done >= total:
                return
            self._wait *= LONGER
            left = duration(rounded((now - began) * (total - now_done) / (now_done - before)))
            what = self.note or f"{now_done:,} of {total:,} {unit}"
            print(f"{name}: {what}, about {left} left", file=sys.stderr, flush=True)  # noqa: T201

        return advance


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
