"""Curves of several configurations in one panel: each in the colour of its class, its label behind its end or below."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from sae.report.axes import EDGE, rim, same_axis, spread_apart
from sae.report.kinds import LOOKS

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
