"""What configurations come to on other seeds: means on the test sets, with their spread."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from sae.core.objectives import Objective
from sae.report.axes import heading, is_known, layered, rounded, same_axis, told
from sae.report.content import Figure
from sae.report.kinds import LOOKS
from sae.report.scatter import (
    Pair,
    class_looks,
    classes_of,
    more_of,
    pair_axes,
    pair_name,
    panel_key,
    pick_layers,
    point_layer,
    point_tooltips,
    shown_values,
)

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
    known = [pair for pair in pairs if _known(rows, *pair)]
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
    drawn = [_point(row, x, y, shown) for row in sorted(_known(rows, x, y), key=lambda row: bool(row["pick"]))]
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


def _known(rows: Sequence[Row], x: Objective, y: Objective) -> list[Row]:
    """Those that have both means."""
    return [row for row in rows if all(is_known(row["values"].get(item.name)) for item in (x, y))]


def _point(row: Row, x: Objective, y: Objective, shown: Sequence[Objective]) -> dict[str, Any]:
    return {
        "id": f"{row['label']} {row.get('eval_exits', '')}",
        "method": LOOKS[row["kind"]].name,
        "label": row["label"],
        "strong": True,
        "pick": bool(row["pick"]),
        "seeds": row["seeds"],
        **more_of(row),
        **_place(row, "x", x),
        **_place(row, "y", y),
        **{f"v{i}": told(v, row["values"].get(v.name), row["stds"].get(v.name)) for i, v in enumerate(shown)},
    }


def _place(row: Row, field: str, item: Objective) -> dict[str, float]:
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
