"""Figure of the independence of members: the correlation of their errors over i, N and K."""

from collections.abc import Sequence
from statistics import mean

import altair as alt

from sae.analysis.independence import SETTINGS, CorrelationPoint
from sae.config.methods import ORANGE
from sae.core.wording import count
from sae.report.content import Figure
from sae.report.figures.axes import GREY, domain_of, heading, layered, rounded

TITLES = {"i end": "i at the end of training", "N": "inputs N", "K": "exits K"}


def independence_figure(points: Sequence[CorrelationPoint], *, name: str, title: str) -> Figure | None:
    """Draw a panel for each setting that varies; None if no run has several members, or nothing varies.

    Args:
        points: The correlations of runs.
        name: Name of the figure.
        title: Title of the figure.
    """
    by_setting = {key: [point for point in points if point.setting == key] for key in SETTINGS}
    varied = {key: found for key, found in by_setting.items() if len({point.value for point in found}) > 1}
    if not varied:
        return None
    caption = (
        "Mean correlation of the errors of two members on the test split: 0 for independent members, as the paper "
        "assumes, 1 for members that err together. A dot is a network; the line is the mean at each value. Networks "
        "differ in other settings, too."
    )
    return Figure(name, title, caption, tuple(correlation_panel(found, key) for key, found in varied.items()))


def correlation_panel(points: Sequence[CorrelationPoint], setting: str) -> alt.LayerChart:
    """Draw the correlations over one setting."""
    rows = [
        {"x": rounded(point.value), "y": rounded(point.correlation), "run": point.run, "kind": "run"}
        for point in points
    ]
    values = sorted({point.value for point in points})
    few = len(values) <= len(points) / 2  # else every value has one network, and a line would join noise
    means = [
        {
            "x": rounded(value),
            "y": rounded(mean(point.correlation for point in points if point.value == value)),
            "run": "mean",
            "kind": "mean",
        }
        for value in (values if few else [])
    ]
    low, high = domain_of(values)
    whole = all(value == int(value) for value in values) and setting != "i end"
    base = alt.Chart().encode(
        x=alt.X(
            "x:Q",
            title=TITLES[setting],
            scale=alt.Scale(domain=[low, high], nice=False),
            axis=alt.Axis(values=values, format="d", grid=False) if whole else alt.Axis(tickCount=5, grid=False),
        ),
        y=alt.Y(
            "y:Q",
            title="correlation of errors",
            scale=alt.Scale(domain=[min(0.0, *(point.correlation for point in points)), 1], nice=False),
            axis=alt.Axis(tickCount=5, gridOpacity=0.4),
        ),
    )
    tooltip = [alt.Tooltip("run:N"), alt.Tooltip("x:Q", title=setting), alt.Tooltip("y:Q", title="correlation")]
    averaged = base.transform_filter(alt.datum.kind == "mean")
    layers = [
        averaged.mark_line(color=ORANGE, strokeWidth=2),
        base.transform_filter(alt.datum.kind == "run")
        .mark_point(filled=True, size=45, color=GREY, opacity=0.7)
        .encode(tooltip=tooltip),
        averaged.mark_point(filled=True, size=60, color=ORANGE, opacity=1),
    ]
    subtitle = count(len({point.run for point in points}), "network")
    return layered([*rows, *means], layers, heading(f"By {TITLES[setting]}", subtitle))
