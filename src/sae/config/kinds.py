"""Kinds: the classes of methods as people meet them in tables and figures."""

import zlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A class of methods as people meet it.

    Attributes:
        key: In files and on the command line, such as `EE`.
        label: In tables and figures, such as `SAE: EE`.
        phrase: In a sentence, such as `one network with early exits`.
        colour: Of its marks on white paper.
        marker: A shape of Vega, a name in `report.labels.MARKERS`, or an SVG path in [-1, 1]².
    """

    key: str
    label: str
    phrase: str
    colour: str
    marker: str


DEFAULT_COLOURS = ("#3A7D34", "#B3261E", "#6A4FB3", "#8A6A00", "#00695C")
DEFAULT_MARKERS = ("diamond", "triangle-down", "triangle-right", "star")
"""For methods that bring no kinds of their own."""


def default_kind(name: str) -> Kind:
    """Return the kind of a method that brings none: its colour and marker depend on its name."""
    label, number = name.replace("_", " "), zlib.crc32(name.encode())
    return Kind(
        name,
        label,
        label,
        DEFAULT_COLOURS[number % len(DEFAULT_COLOURS)],
        DEFAULT_MARKERS[number % len(DEFAULT_MARKERS)],
    )
