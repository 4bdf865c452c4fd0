"""How the classes of methods look in figures: the paper's colours and markers, each with a name for people."""

import math
from dataclasses import dataclass

ORANGE = "#C55A11"


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


LOOKS: dict[str, Look] = {
    "standard": Look("Standard", "#595959", "circle"),
    "ensemble": Look("Ensemble", "#2F528F", "square"),
    "mc_dropout": Look("MC dropout", "#00BFBF", "triangle-up"),
    "batch_ensemble": Look("BatchEnsemble", "#BF00BF", "triangle-left"),
    "I/B": Look("SAE: I/B", ORANGE, cross(0.34, 0.0)),
    "EE": Look("SAE: EE", ORANGE, polygon(8, turn=0.5)),
    "MIMMO": Look("SAE: MIMMO", ORANGE, polygon(5)),
    "MIMO": Look("SAE: MIMO", ORANGE, polygon(6)),
    "SE": Look("SAE: SE", ORANGE, cross(0.34, 0.125)),
}
"""By `Candidate.kind`."""
SAE_KINDS = ("I/B", "EE", "MIMMO", "MIMO", "SE")
"""Those that are single architecture ensembles, and have exits to be read at."""
