"""Heat maps: metrics over corruptions and severities, and what they share with maps of N and K.

Colours can be ordered with any colour vision, and numbers can be read on all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import altair as alt

from sae.analysis.results import SetMeans
from sae.core.objectives import Objective, Quantity, metric_label
from sae.core.wording import count
from sae.data.corruptions import FAMILIES
from sae.records.evaluation import ShiftedSet
from sae.report.content import Figure
from sae.report.figures.axes import GREY, domain_of, heading, is_known, layered, rounded

PALE_TO_DARK = ("#E1ECF7", "#A9CBE8", "#5E9CD0", "#2A6CAD", "#164A80")
WORSE_TO_BETTER = ("#A6500B", "#EDB27C", "#F2F2F2", "#8FB8DE", "#1F5A96")
"""Orange, grey and blue."""
ON_PALE, ON_DARK = "#1A1A1A", "#FFFFFF"
ROW_HEIGHT = 17
"""Height of a corruption, in pixels."""
OTHER_FAMILY = "Others"
FAMILY_ENDINGS = ("_noise", "_blur", "_transform", "_compression")
"""Endings that a name does not need below its family."""


class Ink(TypedDict):
    """A colour that depends on the cell behind it."""

    condition: list[Mapping[str, object]]
    value: str


class ShiftCell(TypedDict):
    """A metric on one corrupted test set."""

    corruption: str
    severity: int
    value: float


@dataclass(frozen=True)
class ShiftMap:
    """All corrupted test sets of one network."""

    label: str
    sets: Sequence[SetMeans]


def shift_figure(
    compared: Sequence[ShiftMap], item: Objective, *, name: str, title: str, difference_to: str | None = None
) -> Figure | None:
    """Draw a heat map of all corrupted sets for each network, in the same colours; None where none has a value.

    Args:
        compared: The pick first.
        item: The metric.
        name: Name of the figure.
        title: Title of the figure.
        difference_to: Label of a network; a last panel shows the difference of the first network to it, set by set.
    """
    maps = {one.label: _shift_cells(one.sets, item.key) for one in compared}
    known = {label: cells for label, cells in maps.items() if cells}
    if not known:
        return None
    scale = heat_scale([cell["value"] for cells in known.values() for cell in cells], item)
    panels = [_shift_panel(cells, label, scale, mean_title(item)) for label, cells in known.items()]
    first = next(iter(known))
    if difference_to in known and difference_to != first:
        panels.append(_difference_panel(known[first], known[difference_to], f"Difference to {difference_to}", item))
    caption = f"{item.label} on each corrupted test set, for severities 1 to 5. Darker is better."
    return Figure(name, title, caption, tuple(panels))


def shift_heatmap(sets: Sequence[SetMeans | ShiftedSet], metric: str, *, maximise: bool, title: str) -> alt.LayerChart:
    """Draw one metric for each corruption and severity; darker is better.

    Args:
        sets: The corrupted sets of one network.
        metric: Which of the metrics.
        maximise: Whether higher is better.
        title: Title of the picture.
    """
    item = Objective(metric, Quantity(maximise=maximise))
    cells = _shift_cells(sets, metric)
    scale = heat_scale([cell["value"] for cell in cells], item)
    return _shift_panel(cells, title, scale, f"{metric_label(metric)}, darker is better")


def _shift_cells(sets: Sequence[SetMeans | ShiftedSet], metric: str) -> list[ShiftCell]:
    return [
        {"corruption": one.corruption, "severity": one.severity, "value": rounded(value)}
        for one in sets
        if is_known(value := one.metrics.get(metric))
    ]


def _difference_panel(
    cells: Sequence[ShiftCell], others: Sequence[ShiftCell], title: str, item: Objective
) -> alt.LayerChart:
    """Draw the difference of two maps, on the sets that both have."""
    second = {(cell["corruption"], cell["severity"]): cell["value"] for cell in others}
    both = [cell for cell in cells if (cell["corruption"], cell["severity"]) in second]
    apart: list[ShiftCell] = [
        {**cell, "value": rounded(cell["value"] - second[cell["corruption"], cell["severity"]])} for cell in both
    ]
    scale = difference_scale([cell["value"] for cell in apart], item)
    return _shift_panel(apart, title, scale, f"{item.label}: blue is better, orange worse", sign="+")


def _shift_panel(
    cells: Sequence[ShiftCell], title: str, scale: alt.Scale, meaning: str, sign: str = ""
) -> alt.LayerChart:
    """Draw one map, with the corruptions by family.

    Args:
        cells: Rows `corruption`, `severity` and `value`, at least one.
        title: Title of the panel.
        scale: Scale of the colours.
        meaning: Meaning of the colours.
        sign: `+` if the numbers are differences.
    """
    values = [cell["value"] for cell in cells]
    rows = corruption_rows({cell["corruption"] for cell in cells})
    drawn = [{**cell, "name": cell["corruption"].replace("_", " ")} for cell in cells]
    shown = f"{sign}{number_format(values)}"
    base = alt.Chart().encode(
        x=alt.X("severity:O", title="severity", axis=alt.Axis(labelAngle=0, orient="top", domain=False, ticks=False)),
        y=alt.Y("corruption:N", title=None, scale=alt.Scale(domain=rows), axis=_corruption_axis()),
    )
    tooltip = [
        alt.Tooltip("name:N", title="corruption"),
        alt.Tooltip("severity:O"),
        alt.Tooltip("value:Q", title=meaning.split(",")[0].split(":")[0], format=f"{sign}.4f"),
    ]
    cell_marks = base.mark_rect(stroke=GREY, strokeOpacity=0.3, strokeWidth=0.5)
    layers = [
        cell_marks.encode(heat_colour("value", scale, meaning), tooltip=tooltip),
        base.mark_text(fontSize=10).encode(alt.Text("value:Q", format=shown), alt.ColorValue(**ink_on(scale, "value"))),
    ]
    mean = format(sum(values) / len(values), shown).replace("-", "−")
    subtitle = f"mean of {count(len(values), 'set')}: {mean}"
    return layered(drawn, layers, heading(title, subtitle), ROW_HEIGHT * len(rows))


def corruption_rows(corruptions: set[str]) -> list[str]:
    """Return corruptions from top to bottom, each family below its name.

    Example:
        >>> corruption_rows({"fog", "glass_blur", "hail"})
        ['Blur', 'glass_blur', 'Weather', 'fog', 'Others', 'hail']
    """
    known = {name for names in FAMILIES.values() for name in names}
    families = {**FAMILIES, OTHER_FAMILY: tuple(sorted(corruptions - known))}
    present = {family: [name for name in names if name in corruptions] for family, names in families.items()}
    return [row for family, names in present.items() if names for row in (family, *names)]


def _corruption_axis() -> alt.Axis:
    """Return an axis with short names below bold family names."""
    is_family = f"indexof({[*FAMILIES, OTHER_FAMILY]}, datum.value) >= 0"
    label = "datum.value"
    for ending in FAMILY_ENDINGS:
        label = f"replace({label}, '{ending}', '')"
    weight = {"condition": {"test": is_family, "value": "bold"}, "value": "normal"}
    return alt.Axis(labelExpr=label, labelFontWeight=weight, domain=False, ticks=False, labelOverlap=False)


def heat_scale(values: Sequence[float], item: Objective) -> alt.Scale:
    """Return a scale from the worst value, pale, to the best, dark."""
    low, high = (min(values), max(values)) if min(values) < max(values) else domain_of(values)
    colours = PALE_TO_DARK if item.quantity.maximise else PALE_TO_DARK[::-1]
    return alt.Scale(domain=_steps(low, high), range=list(colours), interpolate="lab", clamp=True)


def difference_scale(values: Sequence[float], item: Objective) -> alt.Scale:
    """Return a scale from worse, orange, over no difference, grey, to better, blue."""
    most = max(abs(value) for value in values) or 1.0
    colours = WORSE_TO_BETTER if item.quantity.maximise else WORSE_TO_BETTER[::-1]
    return alt.Scale(domain=_steps(-most, most), range=list(colours), interpolate="lab", clamp=True)


def _steps(low: float, high: float) -> list[float]:
    return [low + (high - low) * step / (len(PALE_TO_DARK) - 1) for step in range(len(PALE_TO_DARK))]


def heat_colour(field: str, scale: alt.Scale, title: str) -> alt.Color:
    """Return the colour of a cell, with a legend below the panel."""
    legend = alt.Legend(
        title=title,
        orient="bottom",
        direction="horizontal",
        gradientLength=170,
        gradientThickness=9,
        titleLimit=300,
        tickCount=3,
        labelOverlap="greedy",
        labelSeparation=4,
        offset=4,
    )
    return alt.Color(f"{field}:Q", scale=scale, legend=legend)


def ink_on(scale: alt.Scale, field: str) -> Ink:
    """Return the colour of a number on a cell: light on dark cells."""
    domain, dark = scale.domain, (PALE_TO_DARK[3], PALE_TO_DARK[4], WORSE_TO_BETTER[0], WORSE_TO_BETTER[4])
    ends = [domain[index] for index, colour in enumerate(scale.range) if colour in dark]
    middle = (domain[0] + domain[-1]) / 2
    reach = (domain[-1] - domain[0]) / 8  # half a step: to the middle between two colours
    above, below = [end for end in ends if end > middle], [end for end in ends if end < middle]
    tests = [
        *([f"datum.{field} > {min(above) - reach}"] if above else []),
        *([f"datum.{field} < {max(below) + reach}"] if below else []),
    ]
    return {"condition": [{"test": " || ".join(tests), "value": ON_DARK}], "value": ON_PALE}


def number_format(values: Sequence[float], digits: int = 3) -> str:
    """Return a number format with as many decimals as fit in a cell.

    Example:
        >>> number_format([0.91, 0.88]), number_format([12.4, 8.0]), number_format([3100.0])
        ('.3f', '.2f', '.0f')
    """
    size = max(abs(value) for value in values)
    return f".{max(0, digits - len(str(int(size))) + 1)}f"


def mean_title(item: Objective) -> str:
    """Return the meaning of the colours of a map."""
    return f"{item.label}, darker is better"
