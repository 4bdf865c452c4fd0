"""What is gained by leaving the least certain samples to somebody else: errors among the others."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from sae.report.axes import heading, is_known, layered, rounded, same_axis
from sae.report.content import Figure
from sae.report.lines import curve_layers, curve_looks

LEAST = 0.05
"""Coverage at which curves begin: the risk of fewer samples is that of a handful, and would set the axis."""

Row = Mapping[str, Any]


def risk_coverage_figure(
    compared: Sequence[Row], *, risk: str = "share of errors", name: str, title: str
) -> Figure | None:
    """The risk over the share of samples that are answered; None where there is no curve.

    Args:
        compared: With `label`, `kind`, and the lists `coverage`, `risk` and, over several seeds, `std`.
        risk: What it is; of numbers, the mean squared error.
        name: Of the figure.
        title: What is shown.
    """
    rows = [point for row in compared for point in _points(row)]
    if not rows:
        return None
    kinds = {row["label"]: row["kind"] for row in compared if any(row["label"] == other["label"] for other in rows)}
    band = " Bands reach one standard deviation over seeds to both sides." if any("low" in row for row in rows) else ""
    caption = (
        "Risk among the samples that are answered, when the least certain are left to somebody else; lower is better, "
        f"and at coverage 1 all are answered. Curves begin at {LEAST:.0%}: of fewer samples each counts too much.{band}"
    )
    return Figure(name, title, caption, (_panel(rows, kinds, risk),))


def _points(row: Row) -> list[dict[str, Any]]:
    """What is drawn of a curve, with the ends of its band where it has a spread; no risk is below zero."""
    points = []
    stds = row.get("std") or [None] * len(row["risk"])
    for coverage, value, std in zip(row["coverage"], row["risk"], stds, strict=True):
        if is_known(coverage) and is_known(value) and coverage >= LEAST:
            ends = {"low": rounded(max(0.0, value - std)), "high": rounded(value + std)} if is_known(std) else {}
            points.append({"label": row["label"], "x": rounded(coverage), "y": rounded(value), **ends})
    return points


def _panel(rows: Sequence[Row], kinds: Mapping[str, str], risk: str) -> alt.LayerChart:
    top = 1.05 * max(row.get("high", row["y"]) for row in rows) or 1.0
    axes: dict[str, Any] = {
        "x": alt.X(
            "x:Q",
            title="coverage",
            scale=alt.Scale(domain=[0, 1], nice=False),
            axis=alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], grid=False, labelOverlap="greedy"),
        ),
        "y": alt.Y(
            "y:Q",
            title="risk ↓",
            scale=alt.Scale(domain=[0, top], nice=False),
            axis=alt.Axis(tickCount=5, gridOpacity=0.4),
        ),
    }
    base = alt.Chart().encode(**axes)
    looks = curve_looks(kinds, legend=True)
    told = [
        alt.Tooltip("label:N", title="configuration"),
        alt.Tooltip("x:Q", title="coverage", format=".3f"),
        alt.Tooltip("y:Q", title="risk", format=".4f"),
    ]
    layers = [*_bands(rows, base, axes, looks[0]), *curve_layers(base, looks, told)]
    return layered(rows, layers, heading("Risk over coverage", f"{risk} among the samples answered"))


def _bands(rows: Sequence[Row], base: alt.Chart, axes: Mapping[str, Any], colour: alt.Color) -> list[alt.Chart]:
    """One standard deviation to both sides, where some curve has any."""
    if not any("low" in row for row in rows):
        return []
    known = base.transform_filter("isValid(datum.low)")
    area = known.mark_area(opacity=0.14, line=False)
    return [area.encode(colour, y=same_axis(axes["y"], "low"), y2="high:Q", detail="label:N")]
