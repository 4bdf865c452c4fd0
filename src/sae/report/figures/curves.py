"""Curves of several networks: training, reliability, and risk over coverage."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypedDict

import altair as alt

from sae.analysis.curves import ReliabilityBin, RiskPoint
from sae.config.methods import all_kinds
from sae.core.wording import count, percent
from sae.report.content import Figure
from sae.report.figures.axes import (
    EDGE,
    GREY,
    Axes,
    DrawnRow,
    Look,
    chart_of,
    domain_of,
    heading,
    is_known,
    layered,
    outline,
    rounded,
    same_axis,
    spread_apart,
    whole_ticks,
)

DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4])
"""One after the other for networks of the same kind, which share a colour."""
LABEL_GAP, LETTER_SHARE = 0.065, 0.021
"""Height of a label and width of a letter, as shares of a narrow panel."""
SMALLEST, LARGEST = 25, 500
"""Area of a bin's point, for no samples and for all samples."""
LEAST_COVERAGE = 0.05
"""Coverage at which curves begin: the risk of fewer samples depends on a handful, and would stretch the axis."""
TRAINING_PANELS = (("loss", "Training loss", "loss ↓"), ("val_nll", "Validation NLL", "NLL ↓"))
"""Field, title and axis."""


class CurveRow(TypedDict):
    """A point of a curve."""

    label: str
    x: float
    y: float


class RiskRow(CurveRow, total=False):
    """A point of a risk–coverage curve, with the ends of its band if the risk is a mean."""

    low: float
    high: float


@dataclass(frozen=True)
class Epoch:
    """Losses after an epoch, None where one was not measured."""

    epoch: float
    loss: float | None = None
    val_nll: float | None = None


@dataclass(frozen=True)
class TrainingCurve:
    """The epochs of one run."""

    label: str
    kind: str
    epochs: Sequence[Epoch]


@dataclass(frozen=True)
class Reliability:
    """The reliability diagram of one network."""

    label: str
    kind: str
    ece: float
    bins: Sequence[ReliabilityBin]


@dataclass(frozen=True)
class RiskCurve:
    """The risk–coverage curve of one network."""

    label: str
    kind: str
    points: Sequence[RiskPoint]


def training_figure(curves: Sequence[TrainingCurve], *, name: str, title: str) -> Figure | None:
    """Draw training loss and validation NLL over the epochs; None before the first epoch."""
    kinds = {curve.label: curve.kind for curve in curves}
    panels = [
        _training_panel(rows, kinds, text, axis)
        for key, text, axis in TRAINING_PANELS
        if (rows := [row for curve in curves for row in _training_rows(curve, key)])
    ]
    if not panels:
        return None
    caption = (
        "Loss on training samples, and negative log-likelihood (NLL) on validation samples, after each epoch. Compare "
        "losses only within one method: other methods have other terms in their loss."
    )
    return Figure(name, title, caption, tuple(panels))


def _training_rows(curve: TrainingCurve, key: str) -> list[CurveRow]:
    values = ((item.epoch, getattr(item, key)) for item in curve.epochs)
    return [{"label": curve.label, "x": epoch, "y": rounded(value)} for epoch, value in values if is_known(value)]


def _training_panel(drawn: Sequence[CurveRow], kinds: Mapping[str, str], text: str, axis: str) -> alt.LayerChart:
    shown = {label: kind for label, kind in kinds.items() if any(row["label"] == label for row in drawn)}
    first, last = min(row["x"] for row in drawn), max(row["x"] for row in drawn)
    low, high = domain_of(row["y"] for row in drawn)
    room = label_space(list(shown))
    behind = last + (last - first or 1.0) * room / (1 - room)
    axes: Axes = {
        "x": alt.X(
            "x:Q",
            title="epoch",
            scale=alt.Scale(domain=[first, behind], nice=False, zero=False),
            axis=alt.Axis(values=whole_ticks(first, last), grid=False, format="d", titleAnchor="start"),
        ),
        "y": alt.Y(
            "y:Q",
            title=axis,
            scale=alt.Scale(domain=[low, high], nice=False, zero=False),
            axis=alt.Axis(tickCount=5, gridOpacity=0.4),
        ),
    }
    looks = curve_looks(shown)
    tooltip = [
        alt.Tooltip("label:N", title="run"),
        alt.Tooltip("x:Q", title="epoch"),
        alt.Tooltip("y:Q", title=text, format=".4~g"),
    ]
    ends = [[row for row in drawn if row["label"] == label][-1] for label in shown]
    curves = curve_layers(alt.Chart().encode(**axes), looks, tooltip)
    layers = [*curves, *end_labels(ends, axes, looks, (low, high))]
    return layered(drawn, layers, heading(text, count(len(shown), "run")))


def reliability_figure(compared: Sequence[Reliability], *, name: str, title: str) -> Figure | None:
    """Draw a reliability diagram for each network, all with the same axes; None where there is no sample."""
    known = [(item, bins) for item in compared if (bins := filled_bins(item.bins))]
    if not known:
        return None
    low = min(min(row["confidence"], row["accuracy"]) for _, bins in known for row in bins)
    start = max(0.0, math.floor(low * 10 - 0.2) / 10)
    caption = (
        "How often predictions are right, over how confident they are. Larger points stand for more samples. On the "
        "dashed line confidence matches accuracy; points below it are over-confident, points above it under-confident."
    )
    return Figure(name, title, caption, tuple(_reliability_panel(item, bins, start) for item, bins in known))


def filled_bins(bins: Sequence[ReliabilityBin]) -> list[dict[str, float]]:
    """Return the rows of the bins that have samples, each with its share of all samples."""
    total = sum(item.count for item in bins)
    return [
        {
            "count": item.count,
            "share": rounded(item.count / total),
            "confidence": rounded(item.confidence),
            "accuracy": rounded(item.accuracy),
            "gap": rounded(item.accuracy - item.confidence),
            "from": rounded(item.lower),
            "to": rounded(item.upper),
        }
        for item in bins
        if item.count and item.confidence is not None and item.accuracy is not None
    ]


def _reliability_panel(item: Reliability, bins: Sequence[Mapping[str, float]], start: float) -> alt.LayerChart:
    """Draw one diagram; both axes go from `start` to 1."""
    colour = all_kinds()[item.kind].colour
    scale = alt.Scale(domain=[start - 0.02, 1.02], nice=False, zero=False)
    axis = alt.Axis(tickCount=5, gridOpacity=0.4)
    across = alt.X("confidence:Q", title="confidence", scale=scale, axis=axis)
    up = alt.Y("accuracy:Q", title="accuracy", scale=scale, axis=axis)
    base = alt.Chart().encode(x=across, y=up)
    ends: list[DrawnRow] = [{"confidence": start, "accuracy": start}, {"confidence": 1, "accuracy": 1}]
    diagonal = chart_of(ends).mark_line(color=GREY, strokeDash=[4, 4], strokeWidth=1.2)
    tooltip = [
        alt.Tooltip("from:Q", title="confidence above", format=".3f"),
        alt.Tooltip("to:Q", title="up to", format=".3f"),
        alt.Tooltip("count:Q", title="samples", format=","),
        alt.Tooltip("share:Q", title="share of all", format=".1%"),
        alt.Tooltip("confidence:Q", title="mean confidence", format=".4f"),
        alt.Tooltip("accuracy:Q", format=".4f"),
        alt.Tooltip("gap:Q", title="accuracy − confidence", format="+.4f"),
    ]
    size = alt.Size("share:Q", scale=alt.Scale(domain=[0, 1], range=[SMALLEST, LARGEST]), legend=None)
    points = base.mark_point(filled=True, color=colour, stroke=EDGE, strokeWidth=0.8, opacity=1)
    layers = [
        diagonal.encode(x=across, y=up),
        base.mark_rule(color=colour, strokeWidth=5, opacity=0.45).encode(y2=alt.Y2("confidence:Q")),
        base.mark_line(color=colour, strokeWidth=1.4, opacity=0.85),
        points.encode(size, tooltip=tooltip),
    ]
    samples = sum(int(row["count"]) for row in bins)
    return layered(bins, layers, heading(item.label, f"ECE {item.ece:.4f}, {samples:,} samples"))


def risk_coverage_figure(
    curves: Sequence[RiskCurve], *, risk: str = "share of errors", name: str, title: str
) -> Figure | None:
    """Draw the risk over the share of samples that are answered; None where there is no curve.

    Args:
        curves: One per network.
        risk: What the risk is; for regression the mean squared error.
        name: Name of the figure.
        title: Title of the figure.
    """
    rows = [row for curve in curves for row in _risk_rows(curve)]
    if not rows:
        return None
    kinds = {curve.label: curve.kind for curve in curves if any(row["label"] == curve.label for row in rows)}
    band = " Bands: one standard deviation over seeds to each side." if any("low" in row for row in rows) else ""
    caption = (
        "Risk among the samples that the network answers when the least certain are passed to a human. Lower is "
        "better; at coverage 1 it answers all. "
        f"Curves begin at {percent(LEAST_COVERAGE)}: below that, single samples would dominate.{band}"
    )
    return Figure(name, title, caption, (_risk_panel(rows, kinds, risk),))


def _risk_rows(curve: RiskCurve) -> list[RiskRow]:
    """Return the points of a curve with the ends of their bands; no risk is below zero."""
    rows = []
    for point in curve.points:
        if is_known(point.coverage) and is_known(point.risk) and point.coverage >= LEAST_COVERAGE:
            row: RiskRow = {"label": curve.label, "x": rounded(point.coverage), "y": rounded(point.risk)}
            if is_known(point.std):
                row |= {"low": rounded(max(0.0, point.risk - point.std)), "high": rounded(point.risk + point.std)}
            rows.append(row)
    return rows


def _risk_panel(rows: Sequence[RiskRow], kinds: Mapping[str, str], risk: str) -> alt.LayerChart:
    top = 1.05 * max(row.get("high", row["y"]) for row in rows) or 1.0
    axes: Axes = {
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
    tooltip = [
        alt.Tooltip("label:N", title="network"),
        alt.Tooltip("x:Q", title="coverage", format=".3f"),
        alt.Tooltip("y:Q", title="risk", format=".4f"),
    ]
    layers = [*_bands(rows, base, axes, looks[0]), *curve_layers(base, looks, tooltip)]
    return layered(rows, layers, heading("Risk over coverage", f"{risk} among answered samples"))


def _bands(rows: Sequence[RiskRow], base: alt.Chart, axes: Axes, colour: alt.Color) -> list[alt.Chart]:
    """Draw one standard deviation to each side, if some curve has any."""
    if not any("low" in row for row in rows):
        return []
    known = base.transform_filter("isValid(datum.low)")
    area = known.mark_area(opacity=0.14, line=False)
    return [area.encode(colour, y=same_axis(axes["y"], "low"), y2=alt.Y2("high:Q"), detail=alt.Detail("label:N"))]


def curve_looks(kinds: Mapping[str, str], *, legend: bool = False) -> tuple[alt.Color, alt.StrokeDash]:
    """Return colour and dashes by the field `label`.

    Args:
        kinds: Kind of method by label.
        legend: Whether the panel has a legend below it, with one label per line, so that long ones fit on a phone.
    """
    colours = [all_kinds()[kind].colour for kind in kinds.values()]
    dashes = [DASHES[colours[:index].count(colour) % len(DASHES)] for index, colour in enumerate(colours)]
    below = alt.Legend(
        title=None, orient="bottom", direction="vertical", columns=1, symbolType="stroke", labelLimit=0, offset=6
    )
    shown = below if legend else None
    return (
        alt.Color("label:N", scale=alt.Scale(domain=list(kinds), range=colours), legend=shown),
        alt.StrokeDash("label:N", scale=alt.Scale(domain=list(kinds), range=dashes), legend=shown),
    )


def label_space(labels: Sequence[str]) -> float:
    """Return the share of the width that labels behind the curves need."""
    return min(0.45, 0.09 + LETTER_SHARE * max(len(label) for label in labels))


def curve_layers(base: alt.Chart, looks: Sequence[Look], tooltip: Sequence[alt.Tooltip]) -> list[alt.Chart]:
    """Draw curves with a pale edge, which makes dark ones visible on dark pages, and invisible points with tooltips."""
    edge = base.mark_line(stroke=EDGE, strokeWidth=3.2, opacity=0.45, strokeJoin="round")
    points = base.mark_point(filled=True, size=70, opacity=0).encode(looks[0], tooltip=list(tooltip))
    return [
        edge.encode(*looks[1:], detail=alt.Detail("label:N")),
        base.mark_line(strokeWidth=2, strokeJoin="round").encode(*looks),
        points,
    ]


def end_labels(
    ends: Sequence[CurveRow], axes: Axes, looks: Sequence[Look], domain: tuple[float, float]
) -> list[alt.Chart]:
    """Draw a dot at the end of each curve, and behind it a piece of the curve with its label.

    Args:
        ends: The last row of each curve, with `label`, `x`, `y` and the fields of `looks`.
        axes: Axes of the panel.
        looks: Looks of the curves.
        domain: Range of the vertical axis.
    """
    (low, high), last = domain, max(row["x"] for row in ends)
    space = high - low
    places = spread_apart([row["y"] for row in ends], LABEL_GAP * space, low + 0.03 * space, high - 0.03 * space)
    rows = [{**row, "x": last, "place": place} for row, place in zip(ends, places, strict=True)]
    base = chart_of(rows).encode(x=axes["x"], y=same_axis(axes["y"], "place"))
    dots = chart_of(ends).mark_point(filled=True, size=26, opacity=1)
    piece = base.encode(x2=alt.X2("x:Q")).mark_rule(xOffset=5, x2Offset=19, strokeWidth=2.5).encode(*looks)
    write = partial(base.encode(text=alt.Text("label:N")).mark_text, align="left", dx=23, fontSize=10.5)
    return [
        dots.encode(looks[0], **axes),
        piece,
        write(stroke=outline(), strokeWidth=3),
        write(),
    ]
