"""Scatter plots of configurations over two of their values."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from sae.core.objectives import COST_OBJECTIVES, SHIFTED, Objective
from sae.report.content import Figure
from sae.report.figures.axes import (
    EDGE,
    GREY,
    HEIGHT,
    axis_domain,
    heading,
    is_known,
    layered,
    objective_label,
    rim,
    rounded,
    same_axis,
    told,
    value_axis,
)
from sae.report.labels import LOOKS, NAMES, SAE_KINDS

FAINT, STRONG, HIDDEN = 0.3, 1.0, 0.04
SMALL, LARGE, HOVERED = 40, 120, 260
FLOPS, PARAMS = COST_OBJECTIVES[:2]
COLUMNS = 3
"""Of the legend: as many as fit under a panel on a phone."""

ROOM, LETTER, LINE = 280, 6.6, 28
"""Pixels, on a phone: across a panel's axes, of a letter of a label, and of a line with the marks that it may touch."""
BESIDE, BEYOND = 10, 17
"""Pixels from a point to its label, sideways and up or down."""

Point = Mapping[str, Any]
Pair = tuple[Objective, Objective]
Axis = tuple[Objective, Sequence[float]]
MORE = ("settings", "eval_exits", "command")
TOLD = (("label", "configuration"), ("method", "class"), ("settings", "settings"), ("eval_exits", "K′"))


def usual_pairs(quality: Objective, calibration: Objective, nll: Objective) -> list[Pair]:
    """What is looked at together: the two headline metrics, NLL and cost, and the two costs; horizontal axis first."""
    return [(calibration, quality), (FLOPS, nll), (FLOPS, PARAMS)]


def under_shift(pairs: Sequence[Pair]) -> list[Pair]:
    """The same on corrupted images; pairs of costs are left out, as shift does not change them."""
    return [(_shifted(x), _shifted(y)) for x, y in pairs if not (x.is_cost and y.is_cost)]


def _shifted(item: Objective) -> Objective:
    return item if item.is_cost or item.is_shifted else Objective(item.name + SHIFTED, item.quantity)


def classes_of(points: Sequence[Point]) -> list[str]:
    """The classes among the points, in the order of the paper."""
    return [kind for kind in LOOKS if any(point["kind"] == kind for point in points)]


def class_looks(classes: Sequence[str], *, legend: bool) -> tuple[alt.Color, alt.Shape]:
    """Colour and shape by the field `method`, which holds the name of a class.

    Args:
        classes: Those of all panels, so that they have one legend.
        legend: Whether it is on this panel; below, for it has to fit on a phone.
    """
    below = alt.Legend(
        title=None, orient="bottom", columns=COLUMNS, symbolOpacity=1, symbolSize=80, symbolStrokeWidth=0, offset=6
    )
    names, shown = [LOOKS[kind].name for kind in classes], below if legend else None
    colours = alt.Scale(domain=names, range=[LOOKS[kind].colour for kind in classes])
    shapes = alt.Scale(domain=names, range=[LOOKS[kind].shape for kind in classes])
    return alt.Color("method:N", scale=colours, legend=shown), alt.Shape("method:N", scale=shapes, legend=shown)


def point_layer(
    base: alt.Chart, looks: Sequence[Any], tooltip: Sequence[alt.Tooltip], *, panel: str, legend: bool
) -> alt.Chart:
    """All points: those with `strong` large and opaque, the others faint; the one under the pointer grows.

    Where there is a legend, a click on a class leaves only that one.

    Args:
        base: With rows and axes.
        looks: Colour and shape.
        tooltip: What is told of the point under the pointer.
        panel: A name that no other panel of the figure has, as selections must not share theirs in one file.
        legend: Whether the panel has it.
    """
    hovered = alt.selection_point(
        name=f"hovered_{panel}", fields=["id"], on="pointerover", clear="pointerout", empty=False
    )
    chosen = alt.selection_point(name=f"chosen_{panel}", fields=["method"], bind="legend")
    strong: Any = alt.datum.strong
    if legend:
        alone = alt.when(chosen & strong).then(alt.value(STRONG)).when(chosen).then(alt.value(FAINT))
        opacity = alone.otherwise(alt.value(HIDDEN))
    else:
        opacity = alt.when(strong).then(alt.value(STRONG)).otherwise(alt.value(FAINT))
    size = alt.when(hovered).then(alt.value(HOVERED)).when(strong).then(alt.value(LARGE)).otherwise(alt.value(SMALL))
    points = base.mark_point(filled=True, stroke=EDGE, strokeWidth=0.6)
    drawn: alt.Chart = points.encode(*looks, size=size, opacity=opacity, tooltip=list(tooltip))
    return drawn.add_params(hovered, *([chosen] if legend else []))


def pick_layers(rows: Sequence[Mapping[str, Any]], base: alt.Chart, across: Axis, up: Axis) -> list[alt.Chart]:
    """A ring around the pick, and its label where it covers least.

    Args:
        rows: All points of the panel.
        base: With rows and axes.
        across: The horizontal axis: what it is of, and the values that it shows.
        up: The vertical one.
    """
    picked = next((row for row in rows if row["pick"]), None)
    if picked is None:
        return []
    places = [(share_of(row["x"], *across), share_of(row["y"], *up), 5 if row["strong"] else 1) for row in rows]
    right, above = label_side(places, rows.index(picked), picked["label"])
    only = base.transform_filter(alt.datum.pick)
    ring = only.mark_point(filled=False, size=420, stroke=GREY, strokeWidth=2)
    place: dict[str, Any] = {
        "align": "left" if right else "right",
        "dx": BESIDE if right else -BESIDE,
        "dy": -BEYOND if above else BEYOND,
        "baseline": "middle",
        "fontSize": 11,
        "fontWeight": "bold",
    }
    label = only.encode(text="label:N")
    return [ring, label.mark_text(**place, stroke=rim(), strokeWidth=4), label.mark_text(**place)]


def label_side(places: Sequence[tuple[float, float, int]], index: int, label: str) -> tuple[bool, bool]:
    """Whether the label of a point is best to its right, and above it: within the panel, and over little else.

    Args:
        places: All points as shares of the axes, with how much each matters.
        index: The point that has the label.
        label: Its text.
    """
    (across, up, _), width = places[index], LETTER * len(label) / ROOM

    def covers(side: tuple[bool, bool]) -> tuple[bool, int]:
        left = across + BESIDE / ROOM if side[0] else across - BESIDE / ROOM - width
        middle = up + (BEYOND if side[1] else -BEYOND) / HEIGHT
        half, edge = LINE / 2 / HEIGHT, LETTER / ROOM
        outside = left < 0 or left + width > 1 or middle - half < 0 or middle + half > 1
        within = (
            weight
            for u, v, weight in places
            if left - edge <= u <= left + width + edge and middle - half <= v <= middle + half
        )
        return outside, sum(within)

    return min(((right, above) for right in (True, False) for above in (True, False)), key=covers)


def share_of(value: float, item: Objective, values: Sequence[float]) -> float:
    """Where a value lies on an axis, from 0 to 1."""
    low, high = axis_domain(item, values)
    if item.is_cost:
        return math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)


def pair_axes(across: Axis, up: Axis) -> dict[str, Any]:
    """Both axes, over all values that have to be seen."""
    return {"x": value_axis(alt.X, "x", *across), "y": value_axis(alt.Y, "y", *up)}


def pair_name(x: Objective, y: Objective) -> str:
    """What a panel shows, `F1 and CC-ECE`."""
    first = NAMES[y.key] if y.is_shifted and x.is_shifted else objective_label(y)
    text = f"{first} and {objective_label(x)}"
    return text[0].upper() + text[1:]


def panel_key(x: Objective, y: Objective) -> str:
    """A panel's name for Vega, which knows letters, digits and underscores only."""
    return f"{y.name}_{x.name}".replace(SHIFTED, "_shift")


def shown_values(points: Sequence[Mapping[str, Any]], pairs: Sequence[Pair]) -> list[Objective]:
    """The objectives of all pairs that some point has a value of, each once."""
    every = {item.name: item for pair in pairs for item in pair}
    return [item for name, item in every.items() if any(point.get(name) is not None for point in points)]


def point_tooltips(
    rows: Sequence[Mapping[str, Any]], shown: Sequence[Objective], *more: alt.Tooltip
) -> list[alt.Tooltip]:
    """What is told of the point under the pointer: what it is, its values, and how to train it."""
    known = {key for row in rows for key in row}
    names = (alt.Tooltip(f"{key}:N", title=title) for key, title in TOLD if key in known)
    command = [alt.Tooltip("command:N", title="train it")] if "command" in known else []
    return [*names, *value_tooltips(shown), *more, *command]


def more_of(point: Point) -> dict[str, Any]:
    """What else is told of a configuration; only an SAE has a K′ to be read at."""
    more = {key: point[key] if point[key] is not None else "–" for key in MORE if key in point}
    return {**more, "eval_exits": "–"} if "eval_exits" in more and point["kind"] not in SAE_KINDS else more


def value_tooltips(shown: Sequence[Objective]) -> list[alt.Tooltip]:
    """A line for each value, by the fields `v0`, `v1` and so on: names of objectives need not be names of fields."""
    return [alt.Tooltip(f"v{index}:N", title=objective_label(item)) for index, item in enumerate(shown)]


Row = Mapping[str, Any]


def confirmed_scatter(rows: Sequence[Row], pairs: Sequence[Pair], *, name: str, title: str) -> Figure | None:
    """Configurations by their means over seeds, with bars of one standard deviation; None where there is nothing.

    Args:
        rows: With `kind`, `label`, `pick`, `seeds`, and `values` and `stds` by the names of objectives; for those
            who point at one also `settings`, `eval_exits` and `command`.
        pairs: What the panels show, the horizontal axis first; metrics under shift by `under_shift`.
        name: Of the figure.
        title: What is shown.
    """
    known = [pair for pair in pairs if _known_means(rows, *pair)]
    if not known:
        return None
    caption = (
        "Means over runs that differ in their seed, on test samples; bars reach one standard deviation to both sides "
        "where there are two seeds or more. Ringed: the pick. Costs are on logarithmic axes."
    )
    panels = (confirmed_panel(rows, *pair, pairs=known, legend=pair is known[0]) for pair in known)
    return Figure(name, title, caption, tuple(panels))


def confirmed_panel(
    rows: Sequence[Row], x: Objective, y: Objective, *, pairs: Sequence[Pair], legend: bool
) -> alt.LayerChart:
    """Means by two of their values, with bars both ways.

    Args:
        rows: As in `confirmed_scatter`.
        x: What the horizontal axis is.
        y: What the vertical axis is.
        pairs: Of all panels, whose values are told of the point under the pointer.
        legend: Whether the panel has it.
    """
    shown = shown_values([row["values"] for row in rows], pairs)
    drawn = [_mean_row(row, x, y, shown) for row in sorted(_known_means(rows, x, y), key=lambda row: bool(row["pick"]))]
    across, up = (x, _reach(drawn, "x", x)), (y, _reach(drawn, "y", y))
    axes = pair_axes(across, up)
    base = alt.Chart().encode(**axes)
    looks = class_looks(classes_of(rows), legend=legend)
    tooltip = point_tooltips(drawn, shown, alt.Tooltip("seeds:Q"))
    layers = [
        *_bars(drawn, base, axes, looks[0]),
        point_layer(base, looks, tooltip, panel=panel_key(x, y), legend=legend),
        *pick_layers(drawn, base, across, up),
    ]
    return layered(drawn, layers, heading(pair_name(x, y), _seeds(rows)))


def _bars(drawn: Sequence[Row], base: alt.Chart, axes: Mapping[str, Any], colour: alt.Color) -> list[alt.Chart]:
    """A bar for each direction in which some mean has a spread."""
    bars = []
    for field in (field for field in ("x", "y") if any(f"{field}_low" in row for row in drawn)):
        ends = {field: same_axis(axes[field], f"{field}_low"), f"{field}2": f"{field}_high:Q"}
        known = base.transform_filter(f"isValid(datum.{field}_low)")
        bars.append(known.mark_rule(strokeWidth=1.4, opacity=0.75, clip=True).encode(colour, **ends))
    return bars


def _known_means(rows: Sequence[Row], x: Objective, y: Objective) -> list[Row]:
    """Those that have both means."""
    return [row for row in rows if all(is_known(row["values"].get(item.name)) for item in (x, y))]


def _mean_row(row: Row, x: Objective, y: Objective, shown: Sequence[Objective]) -> dict[str, Any]:
    return {
        "id": f"{row['label']} {row.get('eval_exits', '')}",
        "method": LOOKS[row["kind"]].name,
        "label": row["label"],
        "strong": True,
        "pick": bool(row["pick"]),
        "seeds": row["seeds"],
        **more_of(row),
        **_mean_place(row, "x", x),
        **_mean_place(row, "y", y),
        **{f"v{i}": told(v, row["values"].get(v.name), row["stds"].get(v.name)) for i, v in enumerate(shown)},
    }


def _mean_place(row: Row, field: str, item: Objective) -> dict[str, float]:
    """A mean and, where it has a spread, the ends of its bar; a logarithmic axis has none below zero."""
    mean, std = row["values"][item.name], row["stds"].get(item.name)
    if not is_known(std) or std == 0:
        return {field: rounded(mean)}
    low = mean - std if not item.is_cost or mean > std else mean / 1000
    return {field: rounded(mean), f"{field}_low": rounded(low), f"{field}_high": rounded(mean + std)}


def _reach(drawn: Sequence[Row], field: str, item: Objective) -> list[float]:
    """What an axis has to show: all means and bars; of a cost, bars that would reach zero are cut."""
    keys = (field, f"{field}_high") if item.is_cost else (field, f"{field}_low", f"{field}_high")
    return [row[key] for row in drawn for key in keys if key in row]


def _seeds(rows: Sequence[Row]) -> str:
    """Over how many seeds the means are."""
    numbers = sorted({row["seeds"] for row in rows})
    return f"{'–'.join(str(n) for n in dict.fromkeys((numbers[0], numbers[-1])))} seeds"
