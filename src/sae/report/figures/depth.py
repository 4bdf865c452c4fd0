"""Figure of depth preference: the probability of each exit over training."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from sae.report.content import Figure
from sae.report.figures.axes import GREY, heading, is_known, layered, round_ticks, rounded, same_axis
from sae.report.figures.curves import end_labels, label_space

SHALLOW_TO_DEEP = ("#5D57B5", "#3A75A8", "#21918C", "#3BA968", "#7FB62F")
"""As viridis, as far as it can be seen on light and on dark pages."""

Row = Mapping[str, Any]


def depth_figure(rows: Sequence[Row], *, depth: int, name: str, title: str) -> Figure | None:
    """A panel for each group of runs, a line for each exit; None where there is no run.

    Args:
        rows: With `group`, `epoch` (or `progress`, from 0 to 1), `exit` from 1, the `mean` of its probability over
            `runs`, and its `std`, None of one run.
        depth: D, how many exits there are.
        name: Of the figure.
        title: What is shown.
    """
    known = [row for row in rows if is_known(row["mean"])]
    if not known:
        return None
    caption = (
        "The probability of each exit over training, from the first (dark) to the last (pale): mean and one standard "
        "deviation over runs. Dashed: all exits alike."
    )
    top = min(1.0, 1.08 * max(_band(row)[1] for row in known))
    groups = dict.fromkeys(row["group"] for row in known)
    panels = (
        depth_panel([row for row in known if row["group"] == group], str(group), depth=depth, top=top)
        for group in groups
    )
    return Figure(name, title, caption, tuple(panels))


def depth_panel(rows: Sequence[Row], group: str, *, depth: int, top: float) -> alt.LayerChart:
    """One group of runs.

    Args:
        rows: Of this group.
        group: Its name.
        depth: How many exits there are.
        top: Where the vertical axis ends; the same in all panels, so that they may be compared.
    """
    time = "epoch" if "epoch" in rows[0] else "progress"
    drawn = [_point(row, time) for row in rows]
    first, last = min(row["x"] for row in drawn), max(row["x"] for row in drawn)
    axes = _axes(first, last, time, top)
    exits = sorted({row["exit"] for row in drawn})
    scale = alt.Scale(domain=exits, range=[exit_colour(number, depth) for number in exits])
    colour = alt.Color("exit:O", scale=scale, legend=None)
    base = alt.Chart().encode(colour, **axes)
    ends = [{**row, "label": f"exit {row['exit']}", "y": round(row["y"], 2)} for row in drawn if row["x"] == last]
    told = [
        alt.Tooltip("exit:O"),
        alt.Tooltip("x:Q", title=time),
        alt.Tooltip("y:Q", title="probability", format=".3f"),
        alt.Tooltip("std:N", title="± over runs"),
        alt.Tooltip("runs:Q"),
    ]
    alike = alt.Chart(alt.Data(values=[{"x": first, "last": last, "y": 1 / depth}])).encode(**axes, x2="last:Q")
    layers = [
        alike.mark_rule(color=GREY, strokeDash=[4, 4], strokeWidth=1.2),
        base.mark_area(opacity=0.16, line=False).encode(y=same_axis(axes["y"], "low"), y2="high:Q"),
        base.mark_line(strokeWidth=2.2),
        base.mark_point(filled=True, size=70, opacity=0).encode(tooltip=told),
        *end_labels(ends, axes, [colour], (0, top)),
    ]
    runs = max(row["runs"] for row in rows)
    return layered(drawn, layers, heading(group, f"{runs} {'run' if runs == 1 else 'runs'}"), 210)


def exit_colour(number: int, depth: int) -> str:
    """Of an exit from 1 to D, the same in every panel.

    Example:
        >>> exit_colour(1, 5), exit_colour(5, 5), exit_colour(1, 1)
        ('#5d57b5', '#7fb62f', '#5d57b5')
    """
    stops = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in SHALLOW_TO_DEEP])
    place = (number - 1) / max(1, depth - 1) * (len(stops) - 1)
    mixed = [np.interp(place, np.arange(len(stops)), stops[:, channel]) for channel in range(3)]
    return f"#{''.join(f'{round(value):02x}' for value in mixed)}"


def _band(row: Row) -> tuple[float, float]:
    """One standard deviation to both sides, as far as a probability goes."""
    std = row["std"] if is_known(row["std"]) else 0.0
    return max(0.0, row["mean"] - std), min(1.0, row["mean"] + std)


def _point(row: Row, time: str) -> dict[str, Any]:
    low, high = map(rounded, _band(row))
    spread = f"{row['std']:.3f}" if is_known(row["std"]) else "–"
    place = {"x": rounded(row[time]), "y": rounded(row["mean"])}
    return {**place, "exit": row["exit"], "runs": row["runs"], "low": low, "high": high, "std": spread}


def _axes(first: float, last: float, time: str, top: float) -> dict[str, Any]:
    """Time ends before the panel does: behind it are the labels."""
    span = last - first or 1.0
    across = alt.Scale(domain=[first, first + span / (1 - label_space(["exit 1"]))], nice=False, zero=False)
    share: dict[str, Any] = {"format": ".0%"} if time == "progress" else {}
    return {
        "x": alt.X(
            "x:Q",
            title="training" if time == "progress" else "epoch",
            scale=across,
            axis=alt.Axis(values=round_ticks(first, last), grid=False, **share),
        ),
        "y": alt.Y(
            "y:Q",
            title="probability",
            scale=alt.Scale(domain=[0, top], nice=False),
            axis=alt.Axis(tickCount=5, gridOpacity=0.4),
        ),
    }
