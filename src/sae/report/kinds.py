"""The look of each class of methods in figures, from the registry of methods."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sae.config.methods import ORANGE as ORANGE
from sae.config.methods import all_kinds


@dataclass(frozen=True)
class Look:
    """The look of one class of methods.

    Attributes:
        name: As people call it.
        colour: Of its marks.
        shape: A shape of Vega, or an SVG path in [-1, 1]².
    """

    name: str
    colour: str
    shape: str


def polygon(corners: int, turn: float = 0.0) -> str:
    """A regular polygon as an SVG path, a corner at the top unless it is turned by a part of a side.

    Example:
        >>> polygon(4)
        'M0.00,-1.00L1.00,0.00L0.00,1.00L-1.00,0.00Z'
    """
    angles = [2 * math.pi * (corner + turn) / corners - math.pi / 2 for corner in range(corners)]
    return f"M{'L'.join(f'{math.cos(angle):z.2f},{math.sin(angle):z.2f}' for angle in angles)}Z"


def star(corners: int) -> str:
    """A star as an SVG path, a corner at the top."""
    angles = [math.pi * step / corners - math.pi / 2 for step in range(2 * corners)]
    reach = [1.0 if step % 2 == 0 else 0.4 for step in range(2 * corners)]
    places = (f"{r * math.cos(a):z.2f},{r * math.sin(a):z.2f}" for r, a in zip(reach, angles, strict=True))
    return f"M{'L'.join(places)}Z"


def cross(thickness: float, turn: float) -> str:
    """A cross of two bars as an SVG path, upright at `turn` 0, × at an eighth of a circle."""
    t = thickness
    corners = [
        (-t, -1),
        (t, -1),
        (t, -t),
        (1, -t),
        (1, t),
        (t, t),
        (t, 1),
        (-t, 1),
        (-t, t),
        (-1, t),
        (-1, -t),
        (-t, -t),
    ]
    c, s = math.cos(2 * math.pi * turn), math.sin(2 * math.pi * turn)
    return f"M{'L'.join(f'{c * x - s * y:.2f},{s * x + c * y:.2f}' for x, y in corners)}Z"


MARKERS = {
    "plus": cross(0.34, 0.0),
    "times": cross(0.34, 0.125),
    "pentagon": polygon(5),
    "hexagon": polygon(6),
    "octagon": polygon(8, turn=0.5),
    "star": star(5),
}
"""Shapes that Vega has no name for."""


class Looks(Mapping[str, Look]):
    """The looks of all registered kinds of methods, by `Candidate.kind`, in the order of the paper."""

    def __getitem__(self, kind: str) -> Look:
        found = all_kinds()[kind]
        return Look(found.label, found.colour, MARKERS.get(found.marker, found.marker))

    def __iter__(self) -> Iterator[str]:
        return iter(all_kinds())

    def __len__(self) -> int:
        return len(all_kinds())


LOOKS = Looks()
