"""Curves: training, reliability, and risk over coverage."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from sae.report.content import Figure
from sae.report.figures.axes import (
    EDGE,
    GREY,
    domain_of,
    heading,
    is_known,
    layered,
    rim,
    round_ticks,
    rounded,
    same_axis,
    spread_apart,
)
from sae.report.labels import LOOKS

DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4])
"""For configurations of the same class, which have the same colour, one after the other."""
LABEL_GAP, LETTER = 0.065, 0.021
"""Of labels, as shares of a narrow panel: height of a line, width of a letter."""

Row = Mapping[str, Any]


def curve_looks(compared: Mapping[str, str], *, legend: bool = False) -> tuple[alt.Color, alt.StrokeDash]:
    """Colour and dashes by the field `label`.

    Args:
        compared: By label, the class.
        legend: Whether they are named below the panel, one below the other, so that long labels fit on a phone.
    """
    seen: dict[str, int] = {}
    dashes = []
    for kind in compared.values():
        colour = LOOKS[kind].colour
        dashes.append(DASHES[seen.get(colour, 0) % len(DASHES)])
        seen[colour] = seen.get(colour, 0) + 1
    colours = alt.Scale(domain=list(compared), range=[LOOKS[kind].colour for kind in compared.values()])
    patterns = alt.Scale(domain=list(compared), range=dashes)
    below = alt.Legend(
        title=None, orient="bottom", direction="vertical", columns=1, symbolType="stroke", labelLimit=0, offset=6
    )
    shown = below if legend else None
    return alt.Color("label:N", scale=colours, legend=shown), alt.StrokeDash("label:N", scale=patterns, legend=shown)


def label_space(labels: Sequence[str]) -> float:
    """Which share of the width labels need behind the curves."""
    return min(0.45, 0.09 + LETTER * max(len(label) for label in labels))


def curve_layers(base: alt.Chart, looks: Sequence[Any], tooltip: Sequence[alt.Tooltip]) -> list[alt.Chart]:
    """Curves, with a pale edge that shows dark ones on dark pages, and points that tell what is there."""
    edge = base.mark_line(stroke=EDGE, strokeWidth=3.2, opacity=0.45, strokeJoin="round")
    points = base.mark_point(filled=True, size=70, opacity=0).encode(looks[0], tooltip=list(tooltip))
    return [
        edge.encode(*looks[1:], detail="label:N"),
        base.mark_line(strokeWidth=2, strokeJoin="round").encode(*looks),
        points,
    ]


def end_labels(
    ends: Sequence[Row], axes: Mapping[str, Any], looks: Sequence[Any], domain: tuple[float, float]
) -> list[alt.Chart]:
    """A dot at the end of each curve, and behind it a piece of the curve with its label, apart from the others.

    Args:
        ends: The last row of each curve, with `label`, `x` and `y`, and what the looks are by.
        axes: Of the panel.
        looks: Of the curves.
        domain: Of the vertical axis.
    """
    (low, high), last = domain, max(row["x"] for row in ends)
    space = high - low
    places = spread_apart([row["y"] for row in ends], LABEL_GAP * space, low + 0.03 * space, high - 0.03 * space)
    rows = [{**row, "x": last, "place": place} for row, place in zip(ends, places, strict=True)]
    base = alt.Chart(alt.Data(values=rows)).encode(x=axes["x"], y=same_axis(axes["y"], "place"))
    dots = alt.Chart(alt.Data(values=list(ends))).mark_point(filled=True, size=26, opacity=1)
    piece = base.encode(x2="x:Q").mark_rule(xOffset=5, x2Offset=19, strokeWidth=2.5).encode(*looks)
    place: dict[str, Any] = {"align": "left", "dx": 23, "fontSize": 10.5}
    text = base.encode(text="label:N")
    return [
        dots.encode(looks[0], **axes),
        piece,
        text.mark_text(**place, stroke=rim(), strokeWidth=3),
        text.mark_text(**place),
    ]


CURVES = (("loss", "Training loss", "loss ↓"), ("val_nll", "Validation NLL", "NLL ↓"))


def training_figure(rows: Sequence[Row], *, name: str, title: str) -> Figure | None:
    """A panel for the loss and one for validation; None where no epoch has ended.

    Args:
        rows: With `label`, `kind`, `epoch`, `loss` and `val_nll`; of the last two one may be missing.
        name: Of the figure.
        title: What is shown.
    """
    panels = [_training_panel(rows, *curve) for curve in CURVES if any(is_known(row.get(curve[0])) for row in rows)]
    if not panels:
        return None
    caption = (
        "The loss on training samples and the negative log-likelihood on validation samples after each epoch. Losses "
        "of different methods have different terms: only those of the same method may be compared."
    )
    return Figure(name, title, caption, tuple(panels))


def _training_panel(rows: Sequence[Row], key: str, text: str, axis: str) -> alt.LayerChart:
    drawn = [
        {"label": row["label"], "x": row["epoch"], "y": rounded(row[key])} for row in rows if is_known(row.get(key))
    ]
    kinds = {row["label"]: row["kind"] for row in rows if is_known(row.get(key))}
    first, last = min(row["x"] for row in drawn), max(row["x"] for row in drawn)
    low, high = domain_of(row["y"] for row in drawn)
    room = label_space(list(kinds))
    behind = last + (last - first or 1.0) * room / (1 - room)
    axes: dict[str, Any] = {
        "x": alt.X(
            "x:Q",
            title="epoch",
            scale=alt.Scale(domain=[first, behind], nice=False, zero=False),
            axis=alt.Axis(values=round_ticks(first, last), grid=False, format="d", titleAnchor="start"),
        ),
        "y": alt.Y(
            "y:Q",
            title=axis,
            scale=alt.Scale(domain=[low, high], nice=False, zero=False),
            axis=alt.Axis(tickCount=5, gridOpacity=0.4),
        ),
    }
    base = alt.Chart().encode(**axes)
    looks = curve_looks(kinds)
    told = [
        alt.Tooltip("label:N", title="run"),
        alt.Tooltip("x:Q", title="epoch"),
        alt.Tooltip("y:Q", title=text, format=".4~g"),
    ]
    ends = [[row for row in drawn if row["label"] == label][-1] for label in kinds]
    layers = [*curve_layers(base, looks, told), *end_labels(ends, axes, looks, (low, high))]
    return layered(drawn, layers, heading(text, f"{len(kinds)} {'run' if len(kinds) == 1 else 'runs'}"))


SMALLEST, LARGEST = 25, 500
"""Area of the points: of no samples, and of all."""


def reliability_figure(compared: Sequence[Row], *, name: str, title: str) -> Figure | None:
    """A reliability diagram for each configuration, all with the same axes; None where none has a sample.

    Args:
        compared: With `label`, `kind`, `ece`, and `bins` of equal width over [0, 1]: lists `count`, `confidence` and
            `accuracy`; bins without samples are left out.
        name: Of the figure.
        title: What is shown.
    """
    known = [(row, bins_of(row["bins"])) for row in compared]
    known = [(row, bins) for row, bins in known if bins]
    if not known:
        return None
    low = min(min(item["confidence"], item["accuracy"]) for _, bins in known for item in bins)
    start = max(0.0, math.floor(low * 10 - 0.2) / 10)
    caption = (
        "How often predictions are right, over their confidence; points are larger the more samples they stand for. On "
        "the dashed line a network is as often right as it says; points below it are too sure, points above too shy."
    )
    return Figure(name, title, caption, tuple(reliability_panel(row, bins, start) for row, bins in known))


def bins_of(bins: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    """The bins that have samples, each with its edges and its share of all samples."""
    total = sum(bins["count"])
    return [
        {
            "count": count,
            "share": rounded(count / total),
            "confidence": rounded(confidence),
            "accuracy": rounded(accuracy),
            "gap": rounded(accuracy - confidence),
            "from": rounded(index / len(bins["count"])),
            "to": rounded((index + 1) / len(bins["count"])),
        }
        for index, (count, confidence, accuracy) in enumerate(
            zip(bins["count"], bins["confidence"], bins["accuracy"], strict=True)
        )
        if count
    ]


def reliability_panel(row: Row, bins: Sequence[Mapping[str, float]], start: float) -> alt.LayerChart:
    """One configuration.

    Args:
        row: Its `label`, `kind` and `ece`.
        bins: Those with samples.
        start: Where both axes begin; they end at 1.
    """
    colour = LOOKS[row["kind"]].colour
    scale = alt.Scale(domain=[start - 0.02, 1.02], nice=False, zero=False)
    axis = alt.Axis(tickCount=5, gridOpacity=0.4)
    across = alt.X("confidence:Q", title="confidence", scale=scale, axis=axis)
    up = alt.Y("accuracy:Q", title="accuracy", scale=scale, axis=axis)
    base = alt.Chart().encode(x=across, y=up)
    ends = [{"confidence": start, "accuracy": start}, {"confidence": 1, "accuracy": 1}]
    told = [
        alt.Tooltip("from:Q", title="confidence above", format=".3f"),
        alt.Tooltip("to:Q", title="up to", format=".3f"),
        alt.Tooltip("count:Q", title="samples", format=","),
        alt.Tooltip("share:Q", title="share of all", format=".1%"),
        alt.Tooltip("confidence:Q", title="mean confidence", format=".4f"),
        alt.Tooltip("accuracy:Q", format=".4f"),
        alt.Tooltip("gap:Q", title="accuracy − confidence", format="+.4f"),
    ]
    size = alt.Size("share:Q", scale=alt.Scale(domain=[0, 1], range=[SMALLEST, LARGEST]), legend=None)
    layers = [
        alt.Chart(alt.Data(values=ends))
        .mark_line(color=GREY, strokeDash=[4, 4], strokeWidth=1.2)
        .encode(x=across, y=up),
        base.mark_rule(color=colour, strokeWidth=5, opacity=0.45).encode(y2="confidence:Q"),
        base.mark_line(color=colour, strokeWidth=1.4, opacity=0.85),
        base.mark_point(filled=True, color=colour, stroke=EDGE, strokeWidth=0.8, opacity=1).encode(size, tooltip=told),
    ]
    samples = sum(int(item["count"]) for item in bins)
    return layered(bins, layers, heading(row["label"], f"ECE {row['ece']:.4f}, {samples:,} samples"))


LEAST = 0.05
"""Coverage at which curves begin: the risk of fewer samples is that of a handful, and would set the axis."""


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
    rows = [point for row in compared for point in _risk_points(row)]
    if not rows:
        return None
    kinds = {row["label"]: row["kind"] for row in compared if any(row["label"] == other["label"] for other in rows)}
    band = " Bands reach one standard deviation over seeds to both sides." if any("low" in row for row in rows) else ""
    caption = (
        "Risk among the samples that are answered, when the least certain are left to somebody else; lower is better, "
        f"and at coverage 1 all are answered. Curves begin at {LEAST:.0%}: of fewer samples each counts too much.{band}"
    )
    return Figure(name, title, caption, (_risk_panel(rows, kinds, risk),))


def _risk_points(row: Row) -> list[dict[str, Any]]:
    """What is drawn of a curve, with the ends of its band where it has a spread; no risk is below zero."""
    points = []
    stds = row.get("std") or [None] * len(row["risk"])
    for coverage, value, std in zip(row["coverage"], row["risk"], stds, strict=True):
        if is_known(coverage) and is_known(value) and coverage >= LEAST:
            ends = {"low": rounded(max(0.0, value - std)), "high": rounded(value + std)} if is_known(std) else {}
            points.append({"label": row["label"], "x": rounded(coverage), "y": rounded(value), **ends})
    return points


def _risk_panel(rows: Sequence[Row], kinds: Mapping[str, str], risk: str) -> alt.LayerChart:
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
