"""Scatter plots of networks over two of their values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import altair as alt

from sae.config.methods import all_kinds
from sae.core.objectives import COST_OBJECTIVES, SHIFTED, Objective, metric_label, objective
from sae.core.table import MISSING
from sae.core.wording import count
from sae.report.content import Figure
from sae.report.figures.axes import (
    EDGE,
    GREY,
    HEIGHT,
    Axes,
    DrawnRow,
    Look,
    axis_domain,
    heading,
    is_known,
    layered,
    outline,
    rounded,
    same_axis,
    value_axis,
    value_text,
)
from sae.report.labels import shape_of

FAINT, STRONG, HIDDEN = 0.3, 1.0, 0.04
SMALL, LARGE, HOVERED = 40, 120, 260
FLOPS, PARAMS = COST_OBJECTIVES[:2]
LINKS = ("shown", "front", "picked")
"""What a page may say of networks by their keys, and None if it says nothing: those to show and those to draw large
and solid, `{key: true}`, and the one to ring."""
LEGEND_COLUMNS = 3
"""As many as fit below a panel on a phone."""

PLOT_WIDTH, LETTER_WIDTH, LABEL_HEIGHT = 280, 6.6, 28
"""Pixels on a phone: width inside the axes, width of a letter, and height of a label with the marks around it."""
BESIDE, BEYOND = 10, 17
"""Pixels from a point to its label, sideways and up or down."""

Pair = tuple[Objective, Objective]
"""What a panel shows, the horizontal axis first."""
Axis = tuple[Objective, Sequence[float]]
"""An objective, and the values that its axis has to show."""
PlacedPoint = tuple[float, float, int]
"""A point as shares of both axes, with its weight."""


@dataclass(frozen=True)
class Details:
    """More about a point, for its tooltip.

    Attributes:
        settings: `N=2 K=3 W=1`.
        eval_exits: K′; None for methods without exits.
        command: Trains the network again.
    """

    settings: str
    eval_exits: int | None
    command: str


@dataclass(frozen=True)
class Point:
    """A network, or the mean of several that differ only in their seed.

    Attributes:
        kind: Key of its kind of method.
        label: `sae/17`.
        values: By the names of objectives.
        stds: Standard deviations of means.
        is_strong: Whether it is drawn large and solid: it is Pareto-optimal, or confirmed.
        is_pick: Whether it is ringed.
        seeds: How many runs a mean is over.
        details: More for its tooltip.
        key: Of its network, `sae/17@2`: a page links marks and rows by it. By default the label.
    """

    kind: str
    label: str
    values: Mapping[str, float | None]
    stds: Mapping[str, float | None] = field(default_factory=dict)
    is_strong: bool = True
    is_pick: bool = False
    seeds: int | None = None
    details: Details | None = None
    key: str = ""

    def has(self, *items: Objective) -> bool:
        """Return whether all these values are known."""
        return all(is_known(self.values.get(item.name)) for item in items)

    def value(self, item: Objective) -> float:
        """Return a value that is known."""
        value = self.values[item.name]
        assert value is not None, f"{self.label} has no {item.name}"
        return value


def confirmed_scatter(points: Sequence[Point], pairs: Sequence[Pair], *, name: str, title: str) -> Figure | None:
    """Draw means over seeds with bars of one standard deviation; None where no pair of values is known.

    Args:
        points: Means over seeds.
        pairs: One panel each; metrics under shift by `under_shift`.
        name: Name of the figure.
        title: Title of the figure.
    """
    known = known_pairs(points, pairs)
    if not known:
        return None
    place = "corrupted test images" if any(item.is_shifted for pair in known for item in pair) else "test samples"
    bars = " Bars: one standard deviation to each side, where there are at least two seeds."
    ring = " Ringed: the pick." if any(point.is_pick for point in points) else ""
    caption = f"Means over training runs with different seeds, on {place}.{bars}{ring}{axes_note(known)}"
    panels = (
        scatter_panel(points, pair, drawn=known_points(points, *pair), pairs=known, subtitle=_seeds(points))
        for pair in known
    )
    return Figure(name, title, caption, tuple(panels))


def axes_note(pairs: Sequence[Pair]) -> str:
    """Say that costs have logarithmic axes, where a panel shows one."""
    return " Costs have logarithmic axes." if any(item.is_cost for pair in pairs for item in pair) else ""


def usual_pairs(metrics: Sequence[str], task: str) -> list[Pair]:
    """Return the usual panels: the two headline metrics, NLL over FLOPs, and parameters over FLOPs."""
    quality, calibration, nll = (objective(name, task) for name in (*metrics[:2], "nll"))
    return [(calibration, quality), (FLOPS, nll), (FLOPS, PARAMS)]


def nll_pairs(metrics: Sequence[str], task: str) -> list[Pair]:
    """Return quality over NLL, unless the usual panels show that already: the quality of a regression is its NLL."""
    return [(objective("nll", task), objective(metrics[0], task))] if metrics[0] != "nll" else []


def under_shift(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the same pairs on corrupted images, without pairs of costs, which shift does not change."""
    return [(x.under_shift(), y.under_shift()) for x, y in pairs if not (x.is_cost and y.is_cost)]


def known_pairs(points: Sequence[Point], pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs for which some point has both values."""
    return [pair for pair in pairs if known_points(points, *pair)]


def known_points(points: Sequence[Point], x: Objective, y: Objective) -> list[Point]:
    """Return the points that have both values."""
    return [point for point in points if point.has(x, y)]


def scatter_panel(
    points: Sequence[Point], pair: Pair, *, drawn: Sequence[Point], pairs: Sequence[Pair], subtitle: str
) -> alt.LayerChart:
    """Draw points over two of their values, with bars where they are means, and a ring around the pick.

    Args:
        points: All points of the figure; the legend lists their kinds.
        pair: What the panel shows.
        drawn: The points of this panel.
        pairs: All panels; tooltips list all their values, and the first panel has the legend.
        subtitle: Second line of the panel's title.
    """
    x, y = pair
    legend = pair is pairs[0]
    shown = _shown_values(points, pairs)
    ordered = sorted(drawn, key=lambda point: (point.is_pick, point.is_strong))
    rows = [_row(point, pair, shown) for point in ordered]
    across, up = (x, _reach(ordered, x)), (y, _reach(ordered, y))
    axes: Axes = {"x": value_axis(alt.X, "x", *across), "y": value_axis(alt.Y, "y", *up)}
    base = alt.Chart().encode(**axes)
    colour, shape = kind_looks(points, legend=legend)
    layers = [
        *_bars(rows, base, axes, colour),
        _point_layer(base, (colour, shape), _tooltips(rows, shown), panel=panel_key(x, y), legend=legend),
        *_pick_layers(ordered, base, across, up),
    ]
    return layered(rows, layers, heading(_pair_name(x, y), subtitle), links=LINKS)


def kind_looks(points: Sequence[Point], *, legend: bool) -> tuple[alt.Color, alt.Shape]:
    """Return colour and shape by the field `method`, which holds the label of a kind."""
    below = alt.Legend(
        title=None,
        orient="bottom",
        columns=LEGEND_COLUMNS,
        symbolOpacity=1,
        symbolSize=80,
        symbolStrokeWidth=0,
        offset=6,
    )
    present = {point.kind for point in points}
    kinds = [kind for kind in all_kinds().values() if kind.key in present]
    labels, shown = [kind.label for kind in kinds], below if legend else None
    colours = alt.Scale(domain=labels, range=[kind.colour for kind in kinds])
    shapes = alt.Scale(domain=labels, range=[shape_of(kind) for kind in kinds])
    return alt.Color("method:N", scale=colours, legend=shown), alt.Shape("method:N", scale=shapes, legend=shown)


def panel_key(x: Objective, y: Objective) -> str:
    """Return a name of a panel for Vega, which allows letters, digits and underscores only."""
    return f"{y.name}_{x.name}".replace(SHIFTED, "_shift")


def _row(point: Point, pair: Pair, shown: Sequence[Objective]) -> DrawnRow:
    return {
        "id": point.key or point.label,
        "method": all_kinds()[point.kind].label,
        "label": point.label,
        "strong": point.is_strong,
        "pick": point.is_pick,
        **({"seeds": point.seeds} if point.seeds is not None else {}),
        **_detail_fields(point.details),
        **_place(point, "x", pair[0]),
        **_place(point, "y", pair[1]),
        **{
            f"v{index}": value_text(item, point.values.get(item.name), point.stds.get(item.name))
            for index, item in enumerate(shown)
        },
    }


def _detail_fields(details: Details | None) -> DrawnRow:
    if details is None:
        return {}
    eval_exits = MISSING if details.eval_exits is None else details.eval_exits
    return {"settings": details.settings, "eval_exits": eval_exits, "command": details.command}


def _place(point: Point, axis: str, item: Objective) -> dict[str, float]:
    """Return the place of a point on an axis and the ends of its bar, which must be positive on a logarithmic axis."""
    mean, std = point.value(item), point.stds.get(item.name)
    if not is_known(std) or std == 0:
        return {axis: rounded(mean)}
    low = mean - std if not item.is_cost or mean > std else mean / 1000
    return {axis: rounded(mean), f"{axis}_low": rounded(low), f"{axis}_high": rounded(mean + std)}


def _reach(points: Sequence[Point], item: Objective) -> list[float]:
    """Return what an axis has to show: all points and bars; bars of costs that reach zero are cut off."""
    shown = ("at", "at_high") if item.is_cost else ("at", "at_low", "at_high")
    return [value for point in points for key, value in _place(point, "at", item).items() if key in shown]


def _bars(rows: Sequence[DrawnRow], base: alt.Chart, axes: Axes, colour: alt.Color) -> list[alt.Chart]:
    """Draw a bar in each direction in which some point has a standard deviation."""
    across = _bar_marks(base, "x").encode(colour, x=same_axis(axes["x"], "x_low"), x2=alt.X2("x_high:Q"))
    up = _bar_marks(base, "y").encode(colour, y=same_axis(axes["y"], "y_low"), y2=alt.Y2("y_high:Q"))
    return [bars for end, bars in (("x_low", across), ("y_low", up)) if any(end in row for row in rows)]


def _bar_marks(base: alt.Chart, axis: str) -> alt.Chart:
    known = base.transform_filter(f"isValid(datum.{axis}_low)")
    marks: alt.Chart = known.mark_rule(strokeWidth=1.4, opacity=0.75, clip=True)
    return marks


def _point_layer(
    base: alt.Chart, looks: Sequence[Look], tooltip: Sequence[alt.Tooltip], *, panel: str, legend: bool
) -> alt.Chart:
    """Draw strong points large and solid, others faint; the one under the pointer grows.

    A click on a kind in the legend hides the other kinds.

    Args:
        base: Chart with rows and axes.
        looks: Colour and shape.
        tooltip: Lines of the tooltip.
        panel: Key of the panel; selections of one figure must have different names.
        legend: Whether the panel has the legend.
    """
    hovered = alt.selection_point(
        name=f"hovered_{panel}", fields=["id"], on="pointerover", clear="pointerout", empty=False
    )
    chosen = alt.selection_point(name=f"chosen_{panel}", fields=["method"], bind="legend")
    brush = alt.selection_interval(name=f"brush_{panel}")
    strong = "front ? front[datum.id] : datum.strong"
    hidden = alt.when("shown && !shown[datum.id]").then(alt.value(HIDDEN))
    if legend:
        alone = hidden.when(chosen & strong).then(alt.value(STRONG)).when(chosen).then(alt.value(FAINT))
        opacity = alone.otherwise(alt.value(HIDDEN))
    else:
        opacity = hidden.when(strong).then(alt.value(STRONG)).otherwise(alt.value(FAINT))
    size = alt.when(hovered).then(alt.value(HOVERED)).when(strong).then(alt.value(LARGE)).otherwise(alt.value(SMALL))
    edge = alt.when(strong).then(alt.value(0.6)).otherwise(alt.value(0))  # it would hide the shape of a small mark
    marks = base.mark_point(filled=True, stroke=EDGE)
    drawn: alt.Chart = marks.encode(
        *looks,
        alt.SizeValue(**size),
        alt.OpacityValue(**opacity),
        alt.StrokeWidthValue(**edge),
        tooltip=list(tooltip),
    )
    return drawn.add_params(hovered, brush, *([chosen] if legend else []))


def _pick_layers(points: Sequence[Point], base: alt.Chart, across: Axis, up: Axis) -> list[alt.Chart]:
    """Draw a ring around the pick, and its label where it covers the least."""
    picked = next((index for index, point in enumerate(points) if point.is_pick), None)
    if picked is None:
        return []
    shares = zip(_shares(points, across), _shares(points, up), strict=True)
    places = [(u, v, 5 if point.is_strong else 1) for point, (u, v) in zip(points, shares, strict=True)]
    right, above = label_side(places, picked, points[picked].label)
    only = base.transform_filter("picked ? datum.id === picked : datum.pick")
    ring = only.mark_point(filled=False, size=420, stroke=GREY, strokeWidth=2)
    write = partial(
        only.encode(text=alt.Text("label:N")).mark_text,
        align="left" if right else "right",
        dx=BESIDE if right else -BESIDE,
        dy=-BEYOND if above else BEYOND,
        baseline="middle",
        fontSize=11,
        fontWeight="bold",
    )
    return [ring, write(stroke=outline(), strokeWidth=4), write()]


def _shares(points: Sequence[Point], axis: Axis) -> list[float]:
    """Return the places of points on an axis, from 0 to 1."""
    item, values = axis
    domain = axis_domain(item, values)
    return [share_in(domain, rounded(point.value(item)), item) for point in points]


def label_side(places: Sequence[PlacedPoint], index: int, label: str) -> tuple[bool, bool]:
    """Choose a side for the label of a point, inside the panel and over few other points: right? above?

    Args:
        places: All points.
        index: The point with the label.
        label: Its text.
    """
    (across, up, _), width = places[index], LETTER_WIDTH * len(label) / PLOT_WIDTH

    def covers(side: tuple[bool, bool]) -> tuple[bool, int]:
        left = across + BESIDE / PLOT_WIDTH if side[0] else across - BESIDE / PLOT_WIDTH - width
        middle = up + (BEYOND if side[1] else -BEYOND) / HEIGHT
        half, edge = LABEL_HEIGHT / 2 / HEIGHT, LETTER_WIDTH / PLOT_WIDTH
        outside = left < 0 or left + width > 1 or middle - half < 0 or middle + half > 1
        within = (
            weight
            for u, v, weight in places
            if left - edge <= u <= left + width + edge and middle - half <= v <= middle + half
        )
        return outside, sum(within)

    return min(((right, above) for right in (True, False) for above in (True, False)), key=covers)


def share_in(domain: tuple[float, float], value: float, item: Objective) -> float:
    """Return the place of a value on an axis, from 0 to 1."""
    low, high = domain
    if item.is_cost:
        return math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)


def _pair_name(x: Objective, y: Objective) -> str:
    """Return what a panel shows, `F1 and CC-ECE`."""
    first = metric_label(y.key) if y.is_shifted and x.is_shifted else y.label
    text = f"{first} and {x.label}"
    return text[0].upper() + text[1:]


def _shown_values(points: Sequence[Point], pairs: Sequence[Pair]) -> list[Objective]:
    """Return the objectives of all pairs that some point has a value of, each once."""
    every = {item.name: item for pair in pairs for item in pair}
    return [item for name, item in every.items() if any(point.values.get(name) is not None for point in points)]


def _tooltips(rows: Sequence[DrawnRow], shown: Sequence[Objective]) -> list[alt.Tooltip]:
    """Return the lines of a tooltip: name, settings, values and command.

    Values are in fields `v0`, `v1` and so on, since names of objectives need not be names of fields.
    """
    known = {key for row in rows for key in row}
    names = {"label": "network", "method": "kind", "settings": "settings", "eval_exits": "K′"}
    lines = [alt.Tooltip(f"{key}:N", title=title) for key, title in names.items() if key in known]
    lines += [alt.Tooltip(f"v{index}:N", title=item.label) for index, item in enumerate(shown)]
    lines += [alt.Tooltip("seeds:Q")] if "seeds" in known else []
    return lines + ([alt.Tooltip("command:N", title="train it")] if "command" in known else [])


def _seeds(points: Sequence[Point]) -> str:
    """Return the number of seeds of the means, or its range, `2–4 seeds`."""
    numbers = sorted({point.seeds or 0 for point in points})
    if numbers[0] == numbers[-1]:
        return count(numbers[0], "seed")
    return f"{numbers[0]}–{numbers[-1]} seeds"
