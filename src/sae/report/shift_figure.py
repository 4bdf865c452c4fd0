"""How much corrupted images cost: a heat map over corruptions and severities for each compared configuration."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from sae.core.objectives import Objective, Quantity
from sae.data.corruptions import FAMILIES
from sae.report.axes import GREY, heading, is_known, layered, name_of, rounded
from sae.report.content import Figure
from sae.report.heat import difference_scale, heat_colour, heat_scale, ink_on, mean_title, number_format
from sae.report.metric_names import name_of as metric_name

ROW_HEIGHT = 17
OTHERS = "Others"
SAID_BY_FAMILY = ("_noise", "_blur", "_transform", "_compression")

Row = Mapping[str, Any]


def shift_figure(
    compared: Sequence[Row], item: Objective, *, name: str, title: str, difference_to: str | None = None
) -> Figure | None:
    """A heat map for each configuration, all in the same colours; None where none has a value.

    Args:
        compared: With `label` and `by_set`, rows `corruption`, `severity` and `metrics`; the pick first.
        item: Which of the metrics.
        name: Of the figure.
        title: What is shown.
        difference_to: The label of the one that a last panel compares the first with, set by set.
    """
    maps = {row["label"]: cells_of(row["by_set"], item.key) for row in compared}
    known = {label: cells for label, cells in maps.items() if cells}
    if not known:
        return None
    scale = heat_scale([cell["value"] for cells in known.values() for cell in cells], item)
    panels = [shift_panel(cells, label, scale, mean_title(item)) for label, cells in known.items()]
    first = next(iter(known))
    if difference_to in known and difference_to != first:
        panels.append(difference_panel(known[first], known[difference_to], f"{first} − {difference_to}", item))
    caption = f"{name_of(item)} on every corrupted test set, severities 1 to 5; darker is better."
    return Figure(name, title, caption, tuple(panels))


def shift_heatmap(by_set: Sequence[Row], metric: str, *, maximise: bool, title: str) -> alt.LayerChart:
    """One metric for every corruption and severity; darker is better.

    Args:
        by_set: Rows with `corruption`, `severity` and `metrics`.
        metric: Which of the metrics.
        maximise: Whether more of it is better.
        title: What is shown.
    """
    item = Objective(metric, Quantity(maximise=maximise))
    cells = cells_of(by_set, metric)
    scale = heat_scale([cell["value"] for cell in cells], item)
    return shift_panel(cells, title, scale, f"{metric_name(metric)}, darker is better")


def cells_of(by_set: Sequence[Row], metric: str) -> list[dict[str, Any]]:
    """Rows `corruption`, `severity` and `value` of the sets whose value is known."""
    return [
        {"corruption": row["corruption"], "severity": row["severity"], "value": rounded(row["metrics"][metric])}
        for row in by_set
        if is_known(row["metrics"].get(metric))
    ]


def difference_panel(cells: Sequence[Row], others: Sequence[Row], title: str, item: Objective) -> alt.LayerChart:
    """By how much the first differ from the second, on the sets that both have."""
    second = {(cell["corruption"], cell["severity"]): cell["value"] for cell in others}
    both = [cell for cell in cells if (cell["corruption"], cell["severity"]) in second]
    apart = [{**cell, "value": rounded(cell["value"] - second[cell["corruption"], cell["severity"]])} for cell in both]
    scale = difference_scale([cell["value"] for cell in apart], item)
    return shift_panel(apart, title, scale, f"{name_of(item)}: blue is better, orange worse", sign="+")


def shift_panel(cells: Sequence[Row], title: str, scale: alt.Scale, meaning: str, sign: str = "") -> alt.LayerChart:
    """A heat map, corruptions by their families.

    Args:
        cells: Rows `corruption`, `severity` and `value`, at least one.
        title: What is shown.
        scale: Of the colours.
        meaning: Of the colours.
        sign: `+` where numbers are differences.
    """
    values = [cell["value"] for cell in cells]
    rows = rows_of({cell["corruption"] for cell in cells})
    drawn = [{**cell, "name": cell["corruption"].replace("_", " ")} for cell in cells]
    shown = f"{sign}{number_format(values)}"
    base = alt.Chart().encode(
        x=alt.X("severity:O", title="severity", axis=alt.Axis(labelAngle=0, orient="top", domain=False, ticks=False)),
        y=alt.Y("corruption:N", title=None, scale=alt.Scale(domain=rows), axis=_corruption_axis()),
    )
    told = [
        alt.Tooltip("name:N", title="corruption"),
        alt.Tooltip("severity:O"),
        alt.Tooltip("value:Q", title=meaning.split(",")[0].split(":")[0], format=f"{sign}.4f"),
    ]
    layers = [
        base.mark_rect(stroke=GREY, strokeOpacity=0.3, strokeWidth=0.5).encode(
            heat_colour("value", scale, meaning), tooltip=told
        ),
        base.mark_text(fontSize=10).encode(text=alt.Text("value:Q", format=shown), color=ink_on(scale, "value")),
    ]
    mean = format(sum(values) / len(values), shown)
    return layered(drawn, layers, heading(title, f"mean of {len(values)} sets {mean}"), ROW_HEIGHT * len(rows))


def rows_of(corruptions: set[str]) -> list[str]:
    """Corruptions from top to bottom, above those of each family its name.

    Example:
        >>> rows_of({"fog", "glass_blur", "hail"})
        ['Blur', 'glass_blur', 'Weather', 'fog', 'Others', 'hail']
    """
    known = {name for names in FAMILIES.values() for name in names}
    families = {**FAMILIES, OTHERS: tuple(sorted(corruptions - known))}
    present = {family: [name for name in names if name in corruptions] for family, names in families.items()}
    return [row for family, names in present.items() if names for row in (family, *names)]


def _corruption_axis() -> alt.Axis:
    """Names without what their family says already; families in bold."""
    is_family = f"indexof({[*FAMILIES, OTHERS]}, datum.value) >= 0"
    spoken = "datum.value"
    for ending in SAID_BY_FAMILY:
        spoken = f"replace({spoken}, '{ending}', '')"
    weight = {"condition": {"test": is_family, "value": "bold"}, "value": "normal"}
    return alt.Axis(labelExpr=spoken, labelFontWeight=weight, domain=False, ticks=False, labelOverlap=False)
