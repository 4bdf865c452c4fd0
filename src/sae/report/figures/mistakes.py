"""Figures of what a network gets wrong: confusions of classes, and residuals over predicted spread."""

from collections.abc import Sequence

import altair as alt
import numpy as np
from numpy.typing import NDArray

from sae.analysis.mistakes import Regressed
from sae.core.wording import percent
from sae.report.content import Figure
from sae.report.figures.axes import GREY, DrawnRow, chart_of, domain_of, heading, layered, rounded
from sae.report.figures.heat import ON_DARK, ON_PALE, PALE_TO_DARK

MOST_CLASSES = 20
"""Classes of a matrix that can still be read."""
MOST_LETTERS = 36
"""Letters below a matrix that fit beside each other on a phone; longer names stand upright."""
CELL = 22
"""Height of a cell in pixels."""
MOST_POINTS = 600
WITHIN = 1.96
"""Standard deviations within which 95 % of a Gaussian lie."""
INK = "#2F528F"


def confusion_figure(matrix: NDArray[np.int64], classes: Sequence[str], *, name: str, title: str) -> Figure | None:
    """Draw how often each class was predicted for each true class; None for too many classes to read.

    Args:
        matrix: Counts, (true, predicted).
        classes: Names of the classes.
        name: Name of the figure.
        title: Title of the figure.
    """
    if len(classes) > MOST_CLASSES:
        return None
    shares = matrix / np.maximum(1, matrix.sum(axis=1, keepdims=True))
    rows: list[DrawnRow] = [
        {
            "true": classes[true],
            "predicted": classes[guess],
            "count": int(matrix[true, guess]),
            "share": rounded(float(shares[true, guess])),
        }
        for true in range(len(classes))
        for guess in range(len(classes))
    ]
    order = list(classes)
    angle = 0 if len(classes) * max(map(len, classes)) <= MOST_LETTERS else -90
    base = alt.Chart().encode(
        x=alt.X("predicted:N", sort=order, title="predicted class", axis=alt.Axis(labelLimit=90, labelAngle=angle)),
        y=alt.Y("true:N", sort=order, title="true class", axis=alt.Axis(labelLimit=110)),
    )
    tooltip = [
        alt.Tooltip("true:N", title="true class"),
        alt.Tooltip("predicted:N", title="predicted"),
        alt.Tooltip("count:Q", title="samples"),
        alt.Tooltip("share:Q", title="of the true class", format=".1%"),
    ]
    colour = alt.Color("share:Q", scale=alt.Scale(type="sqrt", domain=[0, 1], range=list(PALE_TO_DARK)), legend=None)
    ink = alt.when(alt.datum.share > 0.3).then(alt.value(ON_DARK)).otherwise(alt.value(ON_PALE))
    layers = [
        base.mark_rect().encode(colour, tooltip=tooltip),
        base.transform_filter(alt.datum.count > 0)
        .mark_text(fontSize=10)
        .encode(text=alt.Text("count:Q"), color=alt.ColorValue(**ink)),
    ]
    panel = layered(rows, layers, heading("True and predicted class", "counts"), height=max(120, CELL * len(classes)))
    caption = (
        "Each row is a true class; the numbers count test samples. Darker: a larger share of the true class. "
        "Away from the diagonal are the errors."
    )
    return Figure(name, title, caption, (panel,))


def residual_figure(found: Regressed, *, name: str, title: str, unit: str) -> Figure:
    """Draw residuals over the predicted standard deviation, with the range that should hold 95 % of them.

    Args:
        found: Predictions and truth.
        name: Name of the figure.
        title: Title of the figure.
        unit: What is predicted.
    """
    chosen = np.linspace(0, len(found.mean) - 1, min(MOST_POINTS, len(found.mean))).round().astype(int)
    rows: list[DrawnRow] = [
        {
            "spread": rounded(float(found.spread[index])),
            "residual": rounded(float(found.residuals[index])),
            "predicted": rounded(float(found.mean[index])),
            "truth": rounded(float(found.targets[index])),
            "sample": int(index),
        }
        for index in chosen
    ]
    low, high = domain_of(found.spread.tolist())
    low = max(0.0, low)
    ends = [{"at": at, "up": WITHIN * at, "down": -WITHIN * at} for at in (low, high)]
    within = float((np.abs(found.surprise) <= WITHIN).mean())
    x = alt.X("spread:Q", title=f"predicted standard deviation{unit}", scale=alt.Scale(domain=[low, high], nice=False))
    points = alt.Chart().mark_point(filled=True, size=28, color=INK, opacity=0.45, clip=True)
    tooltip = [alt.Tooltip(f"{field}:Q", format=form) for field, form in TOOLTIP.items()]
    wedge = chart_of(ends).encode(x=alt.X("at:Q"))
    layers = [
        *(wedge.mark_line(color=GREY, strokeDash=[5, 4]).encode(y=alt.Y(f"{side}:Q")) for side in ("up", "down")),
        points.encode(x, y=alt.Y("residual:Q", title=f"true − predicted{unit}"), tooltip=tooltip),
    ]
    subtitle = f"{percent(within, 1)} between the dashed lines"
    panel = layered(rows, layers, heading("Residual and predicted spread", subtitle))
    some = f" {len(rows)} of {len(found.mean)} samples are drawn." if len(rows) < len(found.mean) else ""
    caption = (
        "Test samples. If the predicted spread is right, 95 % lie between the dashed lines, and residuals grow to the "
        f"right.{some}"
    )
    return Figure(name, title, caption, (panel,))


TOOLTIP = {"sample": "d", "truth": ",.4~g", "predicted": ",.4~g", "residual": ",.4~g", "spread": ",.4~g"}
"""Fields of a residual's tooltip with their formats."""
