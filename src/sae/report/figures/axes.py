"""Axes, titles and label places that all figures share.

Panels are shown on light and on dark pages. Texts, axes and titles take the colours of the page; data have colours of
their own, and everything else is `GREY`, which is visible on both. Texts on top of marks have an outline in the
colour of the background.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, TypedDict, TypeGuard, TypeVar

import altair as alt

from sae.core.objectives import Objective
from sae.core.table import MISSING, four_digits
from sae.report.labels import objective_title

WIDTH, HEIGHT = 340, 250
"""Pixels of a panel in a file; a page may stretch the width."""
GREY = "#808080"
FEWEST_WITH_OUTLIERS = 10
"""Networks among which one can be called far worse than usual."""
EDGE = "#D0D0D0"
"""Edge of overlapping marks: almost white on a light page, and visible around dark colours on a dark page."""
SPACE = 0.07
"""Margin at both ends of an axis, as a share of its range."""

DrawnRow = Mapping[str, object]
"""A row of a chart's data: numbers and texts by the names of fields."""
Look = alt.Color | alt.Shape | alt.StrokeDash
"""What tells one mark from another, besides its place."""
AxisChannel = TypeVar("AxisChannel", alt.X, alt.Y)


class Axes(TypedDict):
    """Both axes of a panel."""

    x: alt.X
    y: alt.Y


def value_text(item: Objective, value: float | None, std: float | None = None) -> str:
    """Write a value for a tooltip, with the standard deviation of a mean if it has one.

    Example:
        >>> from sae.core.objectives import objective
        >>> value_text(objective("f1", "classification"), 0.8384, 0.0181)
        '0.8384 ± 0.0181'
        >>> value_text(objective("flops", "classification"), 216578)
        '216,578'
    """
    if not is_known(value):
        return MISSING
    spread = f" ± {_number(item, std)}" if is_known(std) and std > 0 else ""
    return _number(item, value) + spread


def _number(item: Objective, value: float) -> str:
    return f"{value:,.0f}" if item.is_cost and not item.is_measured else four_digits(value)


def is_known(value: float | None) -> TypeGuard[float]:
    """Return whether a value is a finite number, which can be drawn."""
    return value is not None and math.isfinite(value)


def rounded(value: float) -> float:
    """Round to six significant digits, which keeps pages small.

    Example:
        >>> rounded(0.12324899812707191), rounded(210944)
        (0.123249, 210944)
    """
    return value if isinstance(value, int) else float(f"{value:.6g}")


def domain_of(values: Iterable[float], space: float = SPACE) -> tuple[float, float]:
    """Return a range around some values with a margin; a single value is in the middle.

    Example:
        >>> domain_of([1.0, 2.0], space=0.1), domain_of([4.0])
        ((0.9, 2.1), (3.8, 4.2))
    """
    known = list(values)
    low, high = min(known), max(known)
    edge = (high - low) * space if high > low else abs(low) * 0.05 or 1.0
    return low - edge, high + edge


def log_domain_of(values: Iterable[float], space: float = SPACE) -> tuple[float, float]:
    """Return a range around some positive values for a logarithmic axis."""
    low, high = domain_of((math.log(value) for value in values), space)
    least = math.log(1.25)  # an axis around almost equal values would have no round number
    missing = max(0.0, 2 * least - (high - low)) / 2
    return math.exp(low - missing), math.exp(high + missing)


def log_ticks(low: float, high: float) -> list[float]:
    """Return round ticks for a logarithmic axis: powers of ten, with 2 and 5 times these where there are few.

    Example:
        >>> log_ticks(150_000, 3e6), log_ticks(1e3, 2e8)
        ([200000.0, 500000.0, 1000000.0, 2000000.0], [1000.0, 10000.0, 100000.0, 1000000.0, 10000000.0, 100000000.0])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors, least in (((1,), 3), ((1, 2, 5), 2), (range(1, 10), 3)):
        ticks = [factor * 10.0**power for power in powers for factor in factors]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) >= least:
            return inside
    return inside or [float(f"{math.sqrt(low * high):.2g}")]


def whole_ticks(low: float, high: float) -> list[int]:
    """Return about five whole ticks between two values, for an axis of epochs or trials that is longer than these.

    Example:
        >>> whole_ticks(1, 25), whole_ticks(1, 2), whole_ticks(0, 1), whole_ticks(1, 1)
        ([5, 10, 15, 20, 25], [1, 2], [0, 1], [1])
    """
    power = 10 ** max(0, math.floor(math.log10(max(1.0, (high - low) / 4))))
    step = next(factor * power for factor in (1, 2, 5, 10) if (high - low) / (factor * power) <= 6)
    return [count * step for count in range(math.ceil(low / step), math.floor(high / step) + 1)]


def axis_domain(item: Objective, values: Sequence[float]) -> tuple[float, float]:
    """Return the range of the axis of an objective."""
    return (log_domain_of if item.is_cost else domain_of)(values)


def value_axis(channel: type[AxisChannel], field: str, item: Objective, values: Sequence[float]) -> AxisChannel:
    """Make the axis of an objective; costs have a logarithmic one."""
    low, high = axis_domain(item, values)
    if item.is_cost:
        scale = alt.Scale(type="log", domain=[low, high], nice=False)
        axis = alt.Axis(values=log_ticks(low, high), format="~s", labelOverlap="greedy", gridOpacity=0.4)
    else:
        scale = alt.Scale(domain=[low, high], nice=False, zero=False)
        axis = alt.Axis(tickCount=5, gridOpacity=0.4)
    return channel(f"{field}:Q", title=objective_title(item), scale=scale, axis=axis)


def same_axis(axis: AxisChannel, field: str) -> AxisChannel:
    """Copy an axis for another field of the rows."""
    other = axis.copy()
    other.shorthand = f"{field}:Q"
    return other


def spread_apart(values: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Place labels close to their values and at least `gap` apart, within `low` and `high`.

    Example:
        >>> spread_apart([0.5, 0.5, 0.9], gap=0.2, low=0.0, high=1.0)
        [0.4, 0.6, 0.9]
    """
    order = sorted(range(len(values)), key=lambda index: values[index])
    gap = min(gap, (high - low) / max(1, len(values) - 1))
    ordered = [values[index] for index in order]
    up, down = _pushed_up(ordered, gap), [-v for v in _pushed_up([-v for v in ordered[::-1]], gap)][::-1]
    placed = [(a + b) / 2 for a, b in zip(up, down, strict=True)]  # both keep the gap, so their mean does
    placed = [min(place, high - gap * (len(placed) - 1 - rank)) for rank, place in enumerate(placed)]
    placed = [max(place, low + gap * rank) for rank, place in enumerate(placed)]
    return [place for _, place in sorted(zip(order, placed, strict=True))]


def _pushed_up(ordered: Sequence[float], gap: float) -> list[float]:
    """Raise sorted values until each is at least `gap` above the one before."""
    pushed: list[float] = []
    for value in ordered:
        pushed.append(max(value, pushed[-1] + gap) if pushed else value)
    return pushed


def heading(text: str, subtitle: str = "") -> alt.TitleParams:
    """Make the title of a panel; all have a second line, so that neighbouring panels start at the same height."""
    return alt.TitleParams(text, subtitle=subtitle or "\u00a0", anchor="start", fontSize=12, subtitleFontSize=11)


def outline() -> alt.ExprRef:
    """Return the background colour for the outline of texts on marks: that of Vega, or that of the page."""
    return alt.ExprRef("background || 'var(--paper, transparent)'")


class Rows:
    """The rows of a chart as one value, which Altair takes as it is.

    It copies lists and looks into them again for every layer, which would be half the time of a page of many networks.
    """

    _schema: ClassVar = {"type": "array"}  # what Altair asks of values that are not its own

    def __init__(self, rows: Iterable[DrawnRow]) -> None:
        self._rows = list(rows)

    def to_dict(self) -> list[DrawnRow]:
        """Return the rows for a specification."""
        return self._rows


def chart_of(rows: Iterable[DrawnRow]) -> alt.Chart:
    """Return a chart with rows of its own."""
    return alt.Chart(alt.Data(values=Rows(rows)))


def layered(
    rows: Sequence[DrawnRow],
    layers: Sequence[alt.Chart],
    title: alt.TitleParams,
    height: float = HEIGHT,
    links: Sequence[str] = (),
) -> alt.LayerChart:
    """Stack layers to a panel without a frame.

    Args:
        rows: Data of all layers that have none of their own.
        layers: From back to front.
        title: Title of the panel.
        height: In pixels.
        links: Names of values that the page sets.
    """
    return alt.LayerChart(
        data=alt.Data(values=Rows(rows)),
        layer=list(layers),
        width=WIDTH,
        height=height,
        title=title,
        view=alt.ViewBackground(stroke=None),
        params=[alt.VariableParameter(name=name, value=None) for name in links] or alt.Undefined,
    )
