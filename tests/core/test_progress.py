from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from sae.core.progress import Advance, reading, showing_reading
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
