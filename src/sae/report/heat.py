"""Heat maps: colours that people with any colour vision can order, and numbers that can be read on them."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from sae.core.objectives import Objective
from sae.report.axes import domain_of, name_of

PALE_TO_DARK = ("#E1ECF7", "#A9CBE8", "#5E9CD0", "#2A6CAD", "#164A80")
WORSE_TO_BETTER = ("#A6500B", "#EDB27C", "#F2F2F2", "#8FB8DE", "#1F5A96")
"""Orange, grey and blue."""
ON_PALE, ON_DARK = "#1A1A1A", "#FFFFFF"


def heat_scale(values: Sequence[float], item: Objective) -> alt.Scale:
    """Darker is better, from the worst of the values to the best."""
    low, high = (min(values), max(values)) if min(values) < max(values) else domain_of(values)
    colours = PALE_TO_DARK if item.quantity.maximise else PALE_TO_DARK[::-1]
    return alt.Scale(domain=_steps(low, high), range=list(colours), interpolate="lab", clamp=True)


def difference_scale(values: Sequence[float], item: Objective) -> alt.Scale:
    """Blue is better and orange is worse, as far to both sides; no difference is grey."""
    most = max(abs(value) for value in values) or 1.0
    colours = WORSE_TO_BETTER if item.quantity.maximise else WORSE_TO_BETTER[::-1]
    return alt.Scale(domain=_steps(-most, most), range=list(colours), interpolate="lab", clamp=True)


def _steps(low: float, high: float) -> list[float]:
    return [low + (high - low) * step / (len(PALE_TO_DARK) - 1) for step in range(len(PALE_TO_DARK))]


def heat_colour(field: str, scale: alt.Scale, title: str) -> alt.Color:
    """The colour of a cell, and below the panel what it means."""
    legend = alt.Legend(
        title=title,
        orient="bottom",
        direction="horizontal",
        gradientLength=170,
        gradientThickness=9,
        titleLimit=300,
        tickCount=4,
        offset=4,
    )
    return alt.Color(f"{field}:Q", scale=scale, legend=legend)


def ink_on(scale: alt.Scale, field: str) -> Any:
    """The colour of a number on a cell: light on the dark ones."""
    domain, dark = scale.domain, (PALE_TO_DARK[3], PALE_TO_DARK[4], WORSE_TO_BETTER[0], WORSE_TO_BETTER[4])
    ends = [domain[index] for index, colour in enumerate(scale.range) if colour in dark]
    middle = (domain[0] + domain[-1]) / 2
    reach = (domain[-1] - domain[0]) / 8  # half a step: up to where a neighbour's colour begins
    above, below = [end for end in ends if end > middle], [end for end in ends if end < middle]
    tests = [
        *([f"datum.{field} > {min(above) - reach}"] if above else []),
        *([f"datum.{field} < {max(below) + reach}"] if below else []),
    ]
    return alt.when(" || ".join(tests)).then(alt.value(ON_DARK)).otherwise(alt.value(ON_PALE))


def number_format(values: Sequence[float], digits: int = 3) -> str:
    """As many decimals as a cell has room for.

    Example:
        >>> number_format([0.91, 0.88]), number_format([12.4, 8.0]), number_format([3100.0])
        ('.3f', '.2f', '.0f')
    """
    size = max(abs(value) for value in values)
    return f".{max(0, digits - len(str(int(size))) + 1)}f"


def mean_title(item: Objective) -> str:
    """What the colours of a map mean."""
    return f"{name_of(item)}, darker is better"
