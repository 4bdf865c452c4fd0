"""Whether confidence can be believed: how often a network is right, over how sure it is."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from sae.report.axes import EDGE, GREY, heading, layered, rounded
from sae.report.content import Figure
from sae.report.kinds import LOOKS

SMALLEST, LARGEST = 25, 500
"""Area of the points: of no samples, and of all."""

Row = Mapping[str, Any]


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
