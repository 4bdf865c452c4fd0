"""Contents of our CSV and JSON files as values: the usual ones quickly, unusual ones by the standard library."""

import csv
import io
import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

Numbers = NDArray[np.float64]
CsvTable = tuple[list[str], list[list[str]]]
"""A header and lines of texts."""

UNUSUAL = re.compile(rb"-?(?:NaN|Infinity|[0-9.]+[eE]\+?[0-9]{3,})")
"""Numbers that JSON does not have, and those that may be too large for a float."""
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
LARGE_EXPONENT = re.compile(rb"e\+?[0-9]{3}")
"""Part of every number that is too large and is written with `e`; a fixed first letter makes the search fast."""
LONGEST_PLAIN = 100_000
"""Characters of a CSV file that are read without `csv`, which would look for quotes."""
NUMBERS = b"0123456789.,+-eE\r\n"
"""All characters of lines of plain numbers."""


def may_not_be_finite(content: bytes) -> bool:
    """Return whether every number must be looked at, which takes longer than parsing the file."""
    return b"N" in content or b"I" in content or b"E" in content or LARGE_EXPONENT.search(content) is not None


def is_finite(content: bytes) -> bool:
    """Return whether every number of a JSON text is finite; strings in it do not count."""
    return all(math.isfinite(float(number)) for number in UNUSUAL.findall(STRING.sub(b"", content)))


def read_table(text: str) -> CsvTable:
    """Return the header and the lines of a CSV file."""
    return _unquoted_table(text) or _quoted_table(text)


def _quoted_table(text: str) -> CsvTable:
    """Read any CSV; empty lines below the header count for nothing."""
    header, *lines = list(csv.reader(io.StringIO(text, newline=""), strict=True)) or [[]]
    return header, [line for line in lines if line]


def _unquoted_table(text: str) -> CsvTable | None:
    """Read CSV as we write numbers, faster than `csv`; None for any other text, which `csv` must read."""
    if len(text) > LONGEST_PLAIN or any(mark in text for mark in ('"', "\0", "\r\n\r\n")):
        return None
    header, *lines = (line.split(",") for line in text.removesuffix("\r\n").split("\r\n"))
    is_plain = text.count("\n") == text.count("\r") == len(lines) + 1
    return (header, lines) if is_plain else None


def plain_numbers(content: bytes, columns: Sequence[str]) -> Numbers | None:
    """Read columns of a CSV file of numbers as lists of JSON, which is fast; None for any other file."""
    text = content.removesuffix(b"\r\n")
    head, *lines = text.split(b"\r\n")
    is_plain = head.isascii() and not any(mark in head for mark in b'"\0\r\n') and len(content) <= LONGEST_PLAIN
    body = text[len(head) :]
    if not (is_plain and lines and len(lines) == body.count(b"\r") == body.count(b"\n")):
        return None
    if body.translate(None, NUMBERS):
        return None
    header = head.decode().split(",")
    found = places(header, columns)
    first = min(found)
    try:
        rows = from_json(b"[[" + b"],[".join([line.split(b",", first)[-1] for line in lines]) + b"]]")
        numbers = np.array(rows, dtype=np.float64)
    except ValueError:  # an empty place, or lines of different lengths
        return None
    is_whole = body.count(b",") == len(lines) * (len(header) - 1)
    is_even = numbers.shape == (len(lines), len(header) - first)
    return numbers[:, [place - first for place in found]] if is_whole and is_even else None


def places(header: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Return where columns are in a header; of two with the same title, the last counts."""
    known = {title: place for place, title in enumerate(header)}
    return [known[column] for column in columns]
