"""Names for people: shapes of methods in figures, and labels of metrics and costs, from their registry entries."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from sae.config.method_registry import Kind
from sae.config.run import RunConfig
from sae.core.objectives import ALL_COSTS, Objective, objective
from sae.core.table import Arrow, Column, digits_for, digits_for_costs
from sae.data.catalogue import CATALOGUE

SHOWN_COSTS = ("flops", "params")
"""Costs in tables and figures with room for two."""


HEADLINES: Mapping[str, tuple[str, ...]] = {"classification": ("f1", "cc_ece", "nll"), "regression": ("nll", "mse")}
"""The metrics that results begin with, by task, unless the entry of the data set names others."""


def headline(task: str, name: str) -> tuple[str, ...]:
    """Return the metrics that come first: quality, calibration, and the likelihood, which measures both.

    Example:
        >>> headline("classification", "tinyimagenet"), headline("regression", "mine.csv")
        (('accuracy', 'ece', 'nll'), ('nll', 'mse'))
    """
    entry = CATALOGUE.get(name)
    return entry.headline if entry and entry.headline and entry.task == task else HEADLINES[task]


def shown_exits(config: RunConfig, eval_exits: int) -> int | None:
    """Return K′ of a network that can be read at several numbers of exits, None for any other."""
    return eval_exits if config.method.can_choose_exits else None


def network_key(label: str, config: RunConfig, eval_exits: int) -> str:
    """Return the name of a network that no other of its study has, `sae/17@2`; it links rows and marks of it."""
    exits = shown_exits(config, eval_exits)
    return label if exits is None else f"{label}@{exits}"


def polygon(corners: int, turn: float = 0.0) -> str:
    """Return a regular polygon as an SVG path, with a corner at the top unless it is turned by a share of a side.

    Example:
        >>> polygon(4)
        'M0.00,-1.00L1.00,0.00L0.00,1.00L-1.00,0.00Z'
    """
    angles = [2 * math.pi * (corner + turn) / corners - math.pi / 2 for corner in range(corners)]
    return f"M{'L'.join(f'{math.cos(angle):z.2f},{math.sin(angle):z.2f}' for angle in angles)}Z"


def cross(thickness: float, turn: float) -> str:
    """Return a cross of two bars as an SVG path: + with `turn` 0, × with an eighth of a circle."""
    t = thickness
    quarter = [(-t, -1.0), (t, -1.0), (t, -t)]
    corners = [point for turns in range(4) for point in (_quarter_turns(x, y, turns) for x, y in quarter)]
    c, s = math.cos(2 * math.pi * turn), math.sin(2 * math.pi * turn)
    return f"M{'L'.join(f'{c * x - s * y:.2f},{s * x + c * y:.2f}' for x, y in corners)}Z"


def _quarter_turns(x: float, y: float, turns: int) -> tuple[float, float]:
    for _ in range(turns):
        x, y = -y, x
    return x, y


def star(corners: int) -> str:
    """Return a star as an SVG path, with a corner at the top."""
    angles = [math.pi * step / corners - math.pi / 2 for step in range(2 * corners)]
    reach = [1.0 if step % 2 == 0 else 0.4 for step in range(2 * corners)]
    places = (f"{r * math.cos(a):z.2f},{r * math.sin(a):z.2f}" for r, a in zip(reach, angles, strict=True))
    return f"M{'L'.join(places)}Z"


MARKERS = {
    "plus": cross(0.34, 0.0),
    "times": cross(0.34, 0.125),
    "pentagon": polygon(5),
    "hexagon": polygon(6),
    "octagon": polygon(8, turn=0.5),
    "star": star(5),
}
"""Shapes that Vega does not know by name."""


ON_SCREEN = {
    "octagon": "triangle-down",
    "pentagon": "M-1.00,-1.00L1.00,-1.00L-1.00,1.00L1.00,1.00Z",
    "hexagon": "M-1.00,-0.40L1.00,-0.40L1.00,0.40L-1.00,0.40Z",
}
"""Shapes instead of those of the paper that cannot be told from a circle in a mark of 8 pixels."""


def shape_of(kind: Kind) -> str:
    """Return the shape of a kind's marks for Vega: one that can be told from the others in 8 pixels."""
    return ON_SCREEN.get(kind.marker) or paper_shape_of(kind)


def paper_shape_of(kind: Kind) -> str:
    """Return the shape of a kind's marks in the figures of the paper."""
    return MARKERS.get(kind.marker, kind.marker)


def objective_title(item: Objective) -> str:
    """Return the name of an objective with the arrow for its better direction, `F1 ↑`."""
    return f"{item.label} {arrow_of(item)}"


def arrow_of(item: Objective) -> Arrow:
    """Return the arrow for the better direction of an objective.

    Example:
        >>> arrow_of(objective("f1", "classification")), arrow_of(objective("flops", "classification"))
        ('↑', '↓')
    """
    return "↑" if item.quantity.maximise else "↓"


def unit_of(metric: str) -> float:
    """Return the divisor of a value before it is shown: FLOPs and parameters are shown in millions."""
    return ALL_COSTS[metric].divisor if metric in ALL_COSTS else 1.0


def metric_column(metric: str, task: str, shown: Iterable[float], under_shift: bool = False) -> Column:
    """Return the column of a metric or cost.

    Args:
        metric: Name of its objective.
        task: `classification` or `regression`.
        shown: The numbers that the column will hold, in its unit.
        under_shift: Whether it was measured on corrupted samples.
    """
    item = objective(metric, task)
    if metric in ALL_COSTS:
        return Column(ALL_COSTS[metric].unit, arrow_of(item), digits_for_costs(shown))
    where = " (shift)" if under_shift else ""
    return Column(f"{item.label}{where}", arrow_of(item), digits_for(shown))


def shown_data(name: str) -> str:
    """Name data on the page: a path by its last part.

    Example:
        >>> shown_data("pneumoniamnist"), shown_data("/home/me/data/patients.csv"), shown_data(".")
        ('pneumoniamnist', 'patients.csv', '.')
    """
    return Path(name).name or name
