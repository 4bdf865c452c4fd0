"""Names for people: methods, metrics and costs, and the looks of methods in figures."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from sae.core.objectives import METRICS, objective
from sae.core.table import Arrow, Column, digits_for, digits_for_costs

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


NAMES = {
    "nll": "NLL",
    "accuracy": "accuracy",
    "error": "error",
    "f1": "F1",
    "ece": "ECE",
    "cc_ece": "CC-ECE",
    "cc_ece_uniform": "CC-ECE, classes alike",
    "brier": "Brier score",
    "mse": "MSE",
    "flops": "FLOPs",
    "params": "parameters",
    "shipped_flops": "FLOPs as shipped",
    "shipped_params": "parameters as shipped",
    "latency": "ms for a batch of 64",
}
"""By the names of objectives."""
WITH_UNIT = {
    "flops": "MFLOPs",
    "params": "M params",
    "shipped_flops": "MFLOPs as shipped",
    "shipped_params": "M params as shipped",
    "latency": "ms for a batch of 64",
}
"""Of what has one, above the numbers."""

MILLION = 1e6


def name_of(metric: str) -> str:
    """A metric or cost as people call it; what has no such name keeps its own."""
    return NAMES.get(metric, metric)


def unit_of(metric: str) -> float:
    """What a value is divided by before it is shown: FLOPs and parameters are shown in millions."""
    return MILLION if metric.endswith(("flops", "params")) else 1.0


def better(metric: str, task: str) -> Arrow:
    """The arrow that says which way is better.

    Example:
        >>> better("f1", "classification"), better("flops", "classification")
        ('↑', '↓')
    """
    return "↑" if objective(metric, task).quantity.maximise else "↓"


def metric_column(metric: str, task: str, shown: Iterable[float], under_shift: bool = False) -> Column:
    """The column of a metric or cost.

    Args:
        metric: By the name of its objective.
        task: What is predicted.
        shown: The numbers that will be in it, in its unit.
        under_shift: Whether it was measured on corrupted samples.
    """
    where = " (shift)" if under_shift and metric in METRICS[task] else ""
    decimals = digits_for_costs(shown) if metric in WITH_UNIT else digits_for(shown)
    return Column(f"{WITH_UNIT.get(metric) or name_of(metric)}{where}", better(metric, task), decimals)
