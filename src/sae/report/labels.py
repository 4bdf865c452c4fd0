"""Names for people: kinds of methods with their looks in figures, metrics and costs."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from sae.config.run import RunConfig
from sae.core.objectives import METRICS, Objective, objective
from sae.core.table import Arrow, Column, digits_for, digits_for_costs

ORANGE = "#C55A11"
"""Colour of SAE."""
MILLION = 1e6

METRIC_LABELS = {
    "nll": "NLL",
    "accuracy": "accuracy",
    "error": "error",
    "f1": "F1",
    "ece": "ECE",
    "cc_ece": "CC-ECE",
    "cc_ece_uniform": "CC-ECE, equal class weights",
    "brier": "Brier score",
    "mse": "MSE",
    "flops": "FLOPs",
    "params": "parameters",
    "shipped_flops": "FLOPs as shipped",
    "shipped_params": "parameters as shipped",
    "latency": "ms for a batch of 64",
}
"""By the names of objectives."""
UNIT_LABELS = {
    "flops": "MFLOPs",
    "params": "M params",
    "shipped_flops": "MFLOPs as shipped",
    "shipped_params": "M params as shipped",
    "latency": "ms for a batch of 64",
}
"""Column titles of costs, which have a unit."""
SHOWN_COSTS = ("flops", "params")
"""Costs in tables and figures with room for two."""


@dataclass(frozen=True)
class Kind:
    """A kind of method as people meet it.

    Attributes:
        key: `Candidate.kind`.
        label: Short name, for legends and tables.
        phrase: What it is, for readers who have not read the paper.
        colour: Colour of its marks.
        marker: A shape of Vega, a name in `MARKERS`, or an SVG path in [-1, 1]².
    """

    key: str
    label: str
    phrase: str
    colour: str
    marker: str


@cache
def all_kinds() -> dict[str, Kind]:
    """Return every kind of method by its key, in the order of the paper.

    All names and looks of methods in a report come from here.
    """
    kinds = (
        Kind("standard", "Standard", "a standard network", "#595959", "circle"),
        Kind("ensemble", "Ensemble", "a deep ensemble", "#2F528F", "square"),
        Kind("mc_dropout", "MC dropout", "MC dropout", "#00BFBF", "triangle-up"),
        Kind("batch_ensemble", "BatchEnsemble", "BatchEnsemble", "#BF00BF", "triangle-left"),
        Kind("I/B", "SAE: I/B", "one network with several inputs and some of its exits", ORANGE, "plus"),
        Kind("EE", "SAE: EE", "one network with early exits", ORANGE, "octagon"),
        Kind("MIMMO", "SAE: MIMMO", "one network with several inputs and all exits", ORANGE, "pentagon"),
        Kind("MIMO", "SAE: MIMO", "one network with several inputs", ORANGE, "hexagon"),
        Kind("SE", "SAE: SE", "one network that chose its exit", ORANGE, "times"),
    )
    return {kind.key: kind for kind in kinds}


def shown_exits(config: RunConfig, eval_exits: int) -> int | None:
    """Return K′ of a method that can be read at several numbers of exits, None for other methods."""
    return eval_exits if has_exits(config) else None


def has_exits(config: RunConfig) -> bool:
    """Return whether the trained network can be read at several numbers of exits."""
    return config.method.name == "sae"


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


def shape_of(kind: Kind) -> str:
    """Return the shape of a kind's marks for Vega."""
    return MARKERS.get(kind.marker, kind.marker)


def metric_label(key: str) -> str:
    """Return the name of a metric or cost; without one, the key itself."""
    return METRIC_LABELS.get(key, key)


def objective_label(item: Objective) -> str:
    """Return the name of an objective.

    Example:
        >>> objective_label(objective("cc_ece@shift", "classification"))
        'CC-ECE under shift'
    """
    return metric_label(item.key) + (" under shift" if item.is_shifted else "")


def objective_title(item: Objective) -> str:
    """Return the name of an objective with the arrow for its better direction, `F1 ↑`."""
    return f"{objective_label(item)} {arrow_of(item)}"


def arrow_of(item: Objective) -> Arrow:
    """Return the arrow for the better direction of an objective.

    Example:
        >>> arrow_of(objective("f1", "classification")), arrow_of(objective("flops", "classification"))
        ('↑', '↓')
    """
    return "↑" if item.quantity.maximise else "↓"


def unit_of(metric: str) -> float:
    """Return the divisor of a value before it is shown: FLOPs and parameters are shown in millions."""
    return MILLION if metric.endswith(("flops", "params")) else 1.0


def metric_column(metric: str, task: str, shown: Iterable[float], under_shift: bool = False) -> Column:
    """Return the column of a metric or cost.

    Args:
        metric: Name of its objective.
        task: `classification` or `regression`.
        shown: The numbers that the column will hold, in its unit.
        under_shift: Whether it was measured on corrupted samples.
    """
    where = " (shift)" if under_shift and metric in METRICS[task] else ""
    decimals = digits_for_costs(shown) if metric in UNIT_LABELS else digits_for(shown)
    item = objective(metric, task)
    return Column(f"{UNIT_LABELS.get(metric) or objective_label(item)}{where}", arrow_of(item), decimals)
