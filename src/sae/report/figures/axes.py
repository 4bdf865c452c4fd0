"""Axes, titles and label places that all figures share.

Panels are shown on light and on dark pages. Texts, axes and titles take the colours of the page; data have colours of
their own, and everything else is `GREY`, which is visible on both. Texts on top of marks have an outline in the
colour of the background.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt

from sae.core.objectives import SHIFTED, Objective
from sae.report.labels import NAMES

WIDTH, HEIGHT = 340, 250
"""Of a panel in a file; a page may stretch its width."""
GREY = "#808080"
EDGE = "#D0D0D0"
"""Of marks that lie on each other: as good as white on a light page, and what shows dark colours on a dark one."""
SPACE = 0.07
"""Left free at both ends of an axis, as a share of its range."""


def objective_label(item: Objective) -> str:
    """As people write it.

    Example:
        >>> from sae.core.objectives import objective
        >>> objective_label(objective("cc_ece@shift", "classification"))
        'CC-ECE under shift'
    """
    return NAMES[item.key] + (" under shift" if item.name.endswith(SHIFTED) else "")


def objective_title(item: Objective) -> str:
    """Its name with the direction in which it gets better, `F1 ↑`."""
    return f"{objective_label(item)} {'↑' if item.quantity.maximise else '↓'}"


def told(item: Objective, value: float | None, std: float | None = None) -> str:
    """A value in words for whoever points at it, with the spread of a mean where it has one.

    Example:
        >>> from sae.core.objectives import objective
        >>> told(objective("f1", "classification"), 0.8384, 0.0181), told(objective("flops", "classification"), 216578)
        ('0.8384 ± 0.0181', '216,578')
    """
    if value is None or not is_known(value):
        return "–"
    spread = f" ± {_number(item, std)}" if std is not None and is_known(std) and std > 0 else ""
    return _number(item, value) + spread


def _number(item: Objective, value: float) -> str:
    return f"{value:,.0f}" if item.is_cost and not item.is_measured else f"{value:.4f}"


def is_known(value: Any) -> bool:
    """Whether it is a number that can be drawn."""
    return value is not None and math.isfinite(value)


def rounded(value: float) -> float:
    """To six digits that count: more would only make pages longer.

    Example:
        >>> rounded(0.12324899812707191), rounded(210944)
        (0.123249, 210944)
    """
    return value if isinstance(value, int) else float(f"{value:.6g}")


def domain_of(values: Iterable[float], space: float = SPACE) -> tuple[float, float]:
    """From the least to the greatest with some space around; one value alone lies in the middle.

    Example:
        >>> domain_of([1.0, 2.0], space=0.1), domain_of([4.0])
        ((0.9, 2.1), (3.8, 4.2))
    """
    known = list(values)
    low, high = min(known), max(known)
    edge = (high - low) * space if high > low else abs(low) * 0.05 or 1.0
    return low - edge, high + edge


def log_domain_of(values: Iterable[float], space: float = SPACE) -> tuple[float, float]:
    """The same for a logarithmic axis; values must be positive."""
    low, high = domain_of((math.log(value) for value in values), space)
    least = math.log(1.25)  # values that are nearly the same would else have an axis without a round number
    missing = max(0.0, 2 * least - (high - low)) / 2
    return math.exp(low - missing), math.exp(high + missing)


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers for a logarithmic axis: 1, 2 and 5 times powers of ten, or only the powers over many of them.

    Example:
        >>> log_ticks(150_000, 3e6), log_ticks(1e3, 2e8)
        ([200000.0, 500000.0, 1000000.0, 2000000.0], [1000.0, 10000.0, 100000.0, 1000000.0, 10000000.0, 100000000.0])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 2, 5), range(1, 10)):
        ticks = [factor * 10.0**power for power in powers for factor in factors]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) >= 3:
            return inside
    return inside or [float(f"{math.sqrt(low * high):.2g}")]


def round_ticks(low: float, high: float) -> list[float]:
    """About five round numbers between two, for an axis that goes on where its values have ended.

    Example:
        >>> round_ticks(1, 25), round_ticks(0.0, 1.0), round_ticks(1, 1)
        ([5.0, 10.0, 15.0, 20.0, 25.0], [0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [1.0])
    """
    if high <= low:
        return [float(low)]
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(factor * power for factor in (1, 2, 5, 10) if (high - low) / (factor * power) <= 6)
    return [
        round(count * step, 10) for count in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    ]


def axis_domain(item: Objective, values: Sequence[float]) -> tuple[float, float]:
    """Where the axis of an objective begins and ends."""
    return (log_domain_of if item.is_cost else domain_of)(values)


def value_axis(channel: Any, field: str, item: Objective, values: Sequence[float]) -> Any:
    """The axis of an objective over some of its values; costs are on a logarithmic one."""
    low, high = axis_domain(item, values)
    if item.is_cost:
        scale = alt.Scale(type="log", domain=[low, high], nice=False)
        axis = alt.Axis(values=log_ticks(low, high), format="~s", labelOverlap="greedy", gridOpacity=0.4)
    else:
        scale = alt.Scale(domain=[low, high], nice=False, zero=False)
        axis = alt.Axis(tickCount=5, gridOpacity=0.4)
    return channel(f"{field}:Q", title=objective_title(item), scale=scale, axis=axis)


def same_axis(axis: Any, field: str) -> Any:
    """An axis for another field of the rows."""
    other = axis.copy()
    other.shorthand = f"{field}:Q"
    return other


def spread_apart(values: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places for labels as near to their values as they can be `gap` apart, from `low` to `high` where these suffice.

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
    """Rising values, each at least `gap` above the one before."""
    pushed: list[float] = []
    for value in ordered:
        pushed.append(max(value, pushed[-1] + gap) if pushed else value)
    return pushed


def heading(text: str, subtitle: str = "") -> alt.TitleParams:
    """A panel's title; all have a second line, so that panels side by side begin at the same height."""
    return alt.TitleParams(text, subtitle=subtitle or "\u00a0", anchor="start", fontSize=12, subtitleFontSize=11)


def rim() -> Any:
    """What is behind the panel, for texts that lie on marks: Vega's background or, where it has none, the page's."""
    return alt.ExprRef("background || 'var(--paper, transparent)'")


def layered(
    rows: Sequence[Mapping[str, Any]], layers: Sequence[alt.Chart], title: alt.TitleParams, height: float = HEIGHT
) -> alt.LayerChart:
    """A panel without a frame.

    Args:
        rows: What layers show that have no rows of their own, written once for all of them.
        layers: From the lowest to the topmost.
        title: Above them.
        height: In pixels.
    """
    frame, data = alt.ViewBackground(stroke=None), alt.Data(values=list(rows))
    return alt.LayerChart(data=data, layer=list(layers), width=WIDTH, height=height, title=title, view=frame)
