"""Figures, each defined once as an Altair chart; a chart is saved as PNG or SVG without network or browser."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt


def shift_heatmap(by_set: Sequence[Mapping[str, Any]], metric: str, *, maximise: bool, title: str) -> alt.Chart:
    """One metric for every corruption and severity; darker is worse.

    Args:
        by_set: Rows with `corruption`, `severity` and `metrics`.
        metric: Which of the metrics.
        maximise: Whether more of it is better.
        title: What is shown.
    """
    rows = [
        {"corruption": row["corruption"], "severity": row["severity"], metric: row["metrics"][metric]} for row in by_set
    ]
    order = list(dict.fromkeys(row["corruption"] for row in rows))
    values = [row[metric] for row in rows]
    middle = (min(values) + max(values)) / 2
    dark = f"datum['{metric}'] {'<' if maximise else '>'} {middle}"
    base = alt.Chart(alt.Data(values=rows), title=title).encode(
        x=alt.X("severity:O", axis=alt.Axis(labelAngle=0, orient="top")),
        y=alt.Y("corruption:N", sort=order, title=None),
    )
    color = alt.Color(f"{metric}:Q", scale=alt.Scale(scheme="blues", reverse=maximise), title=metric)
    numbers = base.mark_text(fontSize=10).encode(
        text=alt.Text(f"{metric}:Q", format=".3f"),
        color=alt.condition(dark, alt.value("white"), alt.value("#333333")),
    )
    chart: alt.Chart = (base.mark_rect().encode(color=color) + numbers).properties(width=300, height=420)
    return chart
