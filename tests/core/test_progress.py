from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from sae.core.progress import Advance, Bar, reading, showing_reading
from sae.data.columns import Reading
from sae.data.table_files import read_columns


class Noted:
    """A display that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int, str]] = []
        self.done = 0

    @contextmanager
    def steps(self, name: str, total: int, done: int = 0, unit: str = "steps") -> Iterator[Advance]:
        self.told.append((name, total, unit))
        self.done = done

        def advance(count: int = 1, /) -> None:
            self.done += count

        yield advance


def test_reading_is_shown_only_within_the_context_and_if_it_takes_long() -> None:
    noted = Noted()
    with showing_reading(lambda: noted):
        with reading("few", 10, "images") as advance:
            advance()
        with reading("many", 5000, "images") as advance:
            advance(3)
    with reading("later", 5000, "images") as advance:
        advance()
    assert noted.told == [("many", 5000, "images")]
    assert noted.done == 3


def test_a_large_table_shows_how_much_of_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    np.savetxt(
        path, np.random.default_rng(0).normal(size=(30_000, 8)), delimiter=",", header="a,b,c,d,e,f,g,h", comments=""
    )
    noted = Noted()
    with showing_reading(lambda: noted):
        read_columns(path, Reading())
    (name, total, unit), *more = noted.told
    assert (name, unit, more) == ("t.csv", "kB", [])
    assert 0.5 * total < noted.done < 1.1 * total


class Clock:
    """A clock that a test advances."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        patch.setattr("sae.core.progress.time.monotonic", lambda: self.now)


def test_a_log_has_lines_at_growing_intervals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock, bar = Clock(monkeypatch), Bar()
    with bar.steps("x", 4000) as advance:
        for _ in range(4000):
            clock.now += 1.0
            advance()
    first, second, *lines = capsys.readouterr().err.splitlines()
    assert first == "x: 10 of 4,000 steps, about 1 h 6 min left"
    assert second == "x: 15 of 4,000 steps, about 1 h 6 min left"
    assert 10 < len(lines) < 18


def test_a_short_training_leaves_no_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock, bar = Clock(monkeypatch), Bar()
    with bar.steps("x", 10) as advance:
        for _ in range(10):
            clock.now += 1.0
            advance()
    assert capsys.readouterr().err == ""


def test_a_line_says_the_last_epoch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock, bar = Clock(monkeypatch), Bar()
    with bar.steps("runs/x", 30, done=10) as advance:
        bar.note = "epoch 3 of 9, validation NLL 0.5"
        clock.now = 12.0
        advance(4)
    assert capsys.readouterr().err == "runs/x: epoch 3 of 9, validation NLL 0.5, about 48 s left\n"
