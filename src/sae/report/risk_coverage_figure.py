"""What is gained by leaving the least certain samples to somebody else: errors among the others."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from sae.report.axes import heading, is_known, layered, rounded
from sae.report.content import Figure
from sae.report.lines import curve_layers, curve_looks, end_labels, label_space

Row = Mapping[str, Any]


def risk_coverage_figure(
    compared: Sequence[Row], *, risk: str = "share of errors", name: str, title: str
) -> Figure | None:
    """The risk over the share of samples that are answered; None where there is no curve.

    Args:
        compared: With `label`, `kind`, and the lists `coverage` and `risk`.
        risk: What it is; of numbers, the mean squared error.
        name: Of the figure.
        title: What is shown.
    """
    rows = [
        {"label": row["label"], "x": rounded(coverage), "y": rounded(value)}
        for row in compared
        for coverage, value in zip(row["coverage"], row["risk"], strict=True)
        if is_known(coverage) and is_known(value)
    ]
    if not rows:
        return None
    caption = (
        "Risk among the samples that are answered, when the least certain are left to somebody else; lower is better, "
        "and at coverage 1 all are answered."
    )
    kinds = {row["label"]: row["kind"] for row in compared if any(row["label"] == other["label"] for other in rows)}
    return Figure(name, title, caption, (_panel(rows, kinds, risk),))


def _panel(rows: Sequence[Row], kinds: Mapping[str, str], risk: str) -> alt.LayerChart:
    top = 1.05 * max(row["y"] for row in rows) or 1.0
    behind = 1 / (1 - label_space(list(kinds)))
    axes: dict[str, Any] = {
        "x": alt.X(
            "x:Q",
            title="coverage",
            scale=alt.Scale(domain=[0, behind], nice=False),
            axis=alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], grid=False, titleAnchor="start"),
        ),
        "y": alt.Y(
            "y:Q",
            title="risk ↓",
            scale=alt.Scale(domain=[0, top], nice=False),
            axis=alt.Axis(tickCount=5, gridOpacity=0.4),
        ),
    }
    base = alt.Chart().encode(**axes)
    looks = curve_looks(kinds)
    told = [
        alt.Tooltip("label:N", title="configuration"),
        alt.Tooltip("x:Q", title="coverage", format=".3f"),
        alt.Tooltip("y:Q", title="risk", format=".4f"),
    ]
    ends = [[row for row in rows if row["label"] == label][-1] for label in kinds]
    layers = [*curve_layers(base, looks, told), *end_labels(ends, axes, looks, (0, top))]
    return layered(rows, layers, heading("Risk over coverage", f"{risk} among the samples answered"))
