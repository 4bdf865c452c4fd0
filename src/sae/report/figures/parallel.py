"""Parallel coordinates: a line for each network across all its metrics and costs."""

from collections.abc import Sequence

import altair as alt
import numpy as np

from sae.analysis.pareto import usual_worst
from sae.config.methods import all_kinds
from sae.core.objectives import Objective
from sae.report.content import Figure
from sae.report.figures.axes import (
    FEWEST_WITH_OUTLIERS,
    DrawnRow,
    chart_of,
    heading,
    layered,
    outline,
    rounded,
    value_text,
)
from sae.report.figures.scatter import FAINT, HIDDEN, LEGEND_COLUMNS, LINKS, STRONG, Point
from sae.report.labels import objective_title

MOST_LINES = 300
"""Networks that are drawn: more lines than that are a blot."""
MOST_LEVEL = 5
"""Axes whose names fit beside each other on a phone; names of more are slanted."""


def parallel_figure(
    points: Sequence[Point], axes: Sequence[Objective], *, name: str, title: str, total: int | None = None
) -> Figure | None:
    """Draw a line for each network, up being better on every axis; None without two axes or any network.

    Args:
        points: Candidates; those on the Pareto front are strong.
        axes: From left to right.
        name: Name of the figure.
        title: Title of the figure.
        total: The number of all candidates, if `points` are some of them.
    """
    known = [point for point in points if point.has(*axes)]
    if len(axes) < 2 or not known:
        return None
    order = sorted(known, key=lambda point: (not point.is_pick, not point.is_strong))
    drawn = order[:MOST_LINES][::-1]  # the pick is drawn last
    all_known = max(len(known), total or 0)
    left_out = f" The first {MOST_LINES} of {all_known} networks." if len(drawn) < len(known) else ""
    caption = (
        "A line is a network on validation; up is better on every axis, which ends at the best and at the worst "
        f"value{_outlier_text(drawn, axes)}. Solid: the Pareto front. Costs are on a logarithmic scale.{left_out}"
    )
    return Figure(name, title, caption, (_panel(drawn, axes),))


def _outlier_text(points: Sequence[Point], axes: Sequence[Objective]) -> str:
    """Say where outliers are drawn, if there are any."""
    worst = {item.name: max(item.loss(point.value(item)) for point in points) for item in axes}
    below = any(worst[item.name] > item.loss(_ends(points, item)[1]) for item in axes)
    return " that is no outlier; outliers are drawn at the bottom" if below else ""


def _panel(points: Sequence[Point], axes: Sequence[Objective]) -> alt.LayerChart:
    ends = [_ends(points, item) for item in axes]
    rows: list[DrawnRow] = [
        {
            "id": point.key or point.label,
            "method": all_kinds()[point.kind].label,
            "label": point.label,
            "strong": point.is_strong,
            "pick": point.is_pick,
            **{f"y{i}": _height(point, item, *ends[i]) for i, item in enumerate(axes)},
            **{f"v{i}": value_text(item, point.values.get(item.name)) for i, item in enumerate(axes)},
        }
        for point in points
    ]
    fields = [f"y{index}" for index in range(len(axes))]
    titles = {field: objective_title(item) for field, item in zip(fields, axes, strict=True)}
    names = ", ".join(f"{field}: {title!r}" for field, title in titles.items())
    across = alt.X(
        "axis:N",
        title=None,
        scale=alt.Scale(domain=fields, type="point", padding=0.25),
        axis=alt.Axis(
            labelExpr=f"({{{names}}})[datum.value]",
            labelAngle=0 if len(axes) <= MOST_LEVEL else -20,
            labelAlign="center" if len(axes) <= MOST_LEVEL else "left",
            grid=True,
            domain=False,
            orient="top",
            labelLimit=140,
        ),
    )
    up = alt.Y("height:Q", title=None, axis=None, scale=alt.Scale(domain=[-0.12, 1.12], nice=False))
    legend = alt.Legend(title=None, orient="bottom", columns=LEGEND_COLUMNS, symbolType="stroke", symbolStrokeWidth=3)
    kinds = [kind for kind in all_kinds().values() if any(point.kind == kind.key for point in points)]
    scale = alt.Scale(domain=[kind.label for kind in kinds], range=[kind.colour for kind in kinds])
    colour = alt.Color("method:N", scale=scale, legend=legend)
    picked = "picked ? datum.id === picked : datum.pick"
    strong = "front ? front[datum.id] : datum.strong"
    opacity = alt.OpacityValue(
        **alt.when("shown && !shown[datum.id]")
        .then(alt.value(HIDDEN))
        .when(strong)
        .then(alt.value(STRONG))
        .otherwise(alt.value(FAINT))
    )
    wide = alt.when(picked).then(alt.value(4)).when(strong).then(alt.value(1.8)).otherwise(alt.value(1))
    tooltip = [alt.Tooltip("label:N", title="network"), alt.Tooltip("method:N", title="kind")]
    tooltip += [alt.Tooltip(f"v{index}:N", title=item.label) for index, item in enumerate(axes)]
    folded = alt.Chart().transform_fold([*fields], as_=["axis", "height"])
    lines = folded.mark_line().encode(
        across,
        up,
        colour,
        detail=alt.Detail("id:N"),
        opacity=opacity,
        strokeWidth=alt.StrokeWidthValue(**wide),
        tooltip=tooltip,
    )
    edges = [
        {"axis": field, "at": at, "text": item.show(value)}
        for field, item, (best, worst) in zip(fields, axes, ends, strict=True)
        for at, value in ((1.05, best), (-0.06, worst))
    ]
    texts = chart_of(edges).encode(
        x=alt.X("axis:N", scale=alt.Scale(domain=fields, type="point", padding=0.25)),
        y=alt.Y("at:Q"),
        text=alt.Text("text:N"),
    )
    labels = [texts.mark_text(fontSize=10, stroke=outline(), strokeWidth=3), texts.mark_text(fontSize=10)]
    return layered(
        rows, [lines, *labels], heading("All metrics and costs", "up is better on every axis"), height=280, links=LINKS
    )


def _ends(points: Sequence[Point], item: Objective) -> tuple[float, float]:
    """Return the best value of an axis, and the worst that is not an outlier."""
    values = sorted((point.value(item) for point in points), key=item.loss)
    if len(values) < FEWEST_WITH_OUTLIERS:
        return values[0], values[-1]
    bound = float(usual_worst(np.array([[item.scaled_loss(value)] for value in values]))[0])
    usual = [value for value in values if item.scaled_loss(value) <= bound]
    return values[0], usual[-1] if usual else values[-1]


def _height(point: Point, item: Objective, best: float, worst: float) -> float:
    """Return the place on an axis from 0 for its worst value to 1 for its best."""
    low, high = item.scaled_loss(best), item.scaled_loss(worst)
    if high <= low:
        return 1.0
    return rounded(max(0.0, (high - item.scaled_loss(point.value(item))) / (high - low)))
