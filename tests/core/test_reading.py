"""Reading of small files."""

from pathlib import Path

import pytest

from sae.core.reading import PIECE, read_file


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, 3 * PIECE + 5])
def test_a_file_is_read_to_its_end(size: int, tmp_path: Path) -> None:
    content = bytes(number % 251 for number in range(size))
    (tmp_path / "x").write_bytes(content)
    assert read_file(str(tmp_path / "x")) == content


def test_the_ends_of_lines_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a\r\nb\n\x1a")
    assert read_file(str(tmp_path / "x")) == b"a\r\nb\n\x1a"


def test_reading_stops_soon_after_a_limit(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a" * 5 * PIECE)
    assert 2 * PIECE < len(read_file(str(tmp_path / "x"), most=2 * PIECE)) <= 3 * PIECE


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_file(str(tmp_path / "x"))
    with pytest.raises(OSError, match=r"directory|Permission"):
        read_file(str(tmp_path))
