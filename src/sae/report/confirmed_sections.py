"""Sections about the chosen configurations: on new seeds, and how trustworthy their confidence is."""

import shlex
from collections.abc import Mapping, Sequence

from sae.analysis.comparison import mean_ranks
from sae.analysis.contestants import Scaling
from sae.analysis.curves import reliability_curve, risk_curve
from sae.analysis.recommendation import PROVISIONAL
from sae.analysis.results import Result, Tested, means_by_set
from sae.analysis.statistics import Spread
from sae.analysis.temperature import effect_under_shift
from sae.core.objectives import objective
from sae.core.table import Table
from sae.report.commands import train_command
from sae.report.content import Figure, Note, Section, section
from sae.report.figures.curves import Reliability, RiskCurve, reliability_figure, risk_coverage_figure
from sae.report.figures.heat import ShiftMap, shift_figure
from sae.report.figures.scatter import Details, Point, confirmed_scatter, nll_pairs, usual_pairs
from sae.report.findings import Findings
from sae.report.labels import SHOWN_COSTS, network_key, shown_exits
from sae.report.tables import best_table, confirmed_table, interval_table, rank_table

Labelled = Sequence[tuple[str, Result]]
"""Configurations with their labels in figures."""


def confirmed_section(found: Findings) -> Section:
    """Show the chosen configurations on new seeds."""
    title, results = "Results on new seeds", found.results
    intro = (
        "The chosen configurations, trained again on seeds that the search did not use: mean ± standard deviation on "
        "the clean test split."
    )
    missing = found.unconfirmed
    note = Note(f"Without a finished, readable run on a new seed: {', '.join(missing)}.") if missing else None
    if not results:
        return section("other-seeds", title, "", note or Note(_nothing_yet(found)))
    points = [result_point(item, item.test, is_pick=found.is_pick(item)) for item in results]
    pairs = usual_pairs(found.metrics, found.task)
    return section(
        "other-seeds",
        title,
        intro,
        confirmed_scatter(points, pairs, name="confirmed-quality", title="Test split, new seeds"),
        confirmed_scatter(
            points, nll_pairs(found.metrics, found.task), name="confirmed-nll", title="Quality and NLL, new seeds"
        ),
        confirmed_table(results, found.metrics, found.task),
        best_table(results, found.metrics, found.task, selection=found.selection),
        rank_of(found, "test"),
        note,
    )


def _nothing_yet(found: Findings) -> str:
    """Say that nothing was confirmed, and what to do about it, at once or when the study has ended."""
    again = f"sae search … --confirm 4 --out {shlex.quote(str(found.record.path))}"
    if found.recommendation is not None and found.recommendation.state == PROVISIONAL:
        return f"Nothing was confirmed yet, since the study has not ended. When it has: `{again}`."
    return f"Nothing was confirmed yet: run `{again}`."


def calibration_section(found: Findings) -> Section:
    """Show whether confidence matches accuracy, and the effect of passing uncertain samples to a human."""
    what = "Is a prediction with 90 % confidence right nine times in ten?"
    if found.task == "regression":
        what = "Do 90 % prediction intervals contain nine in ten values?"
    intro = f"{what} And how much does it help to pass the least certain samples to a human?"
    labels = dict(zip(found.shown, (label for label, _ in found.labelled()), strict=True))
    scalings = {labels[role]: scaling for role, scaling in found.headline.scalings.items()}
    parts = [*calibration_figures(found.labelled(), scalings), interval_table(found.labelled())]
    without = [label for label, item in found.labelled() if risk_curve(item) is None]
    note = Note(f"Without curves: {'; '.join(without)}.") if without else None
    missing = None if any(parts) or note else Note("There is no network to draw curves of yet.")
    effects = _scaling_under_shift(found.labelled(), scalings)
    return section("calibration", "Can its confidence be trusted?", intro, *parts, effects, note, missing)


def _scaling_under_shift(compared: Labelled, scalings: Mapping[str, Scaling]) -> Note | None:
    """Say what temperature scaling does to each network under shift, where it changes the network."""
    said = []
    for label, item in compared:
        if label in scalings and scalings[label].applied.mean != 1.0:
            metrics = {key: spread.mean for key, spread in (item.shift or {}).items()}
            said.append(f"{label}: {effect_under_shift(metrics)}")
    return Note(" ".join(said)) if said else None


def corruption_figure(compared: Labelled, metric: str, task: str) -> Figure | None:
    """Draw each network on every corrupted set, and the difference of the first to the second."""
    maps = [ShiftMap(label, sets) for label, item in compared if (sets := means_by_set(item))]
    rival = maps[1].label if len(maps) > 1 else None
    title = "Where corruption hurts"
    return shift_figure(maps, objective(metric, task), name="corruptions", title=title, difference_to=rival)


def calibration_figures(
    compared: Labelled, scalings: Mapping[str, Scaling] | None = None
) -> tuple[Figure | None, Figure | None]:
    """Draw reliability, raw and after temperature scaling, and risk over coverage, of some networks."""
    reliabilities = []
    for label, item in compared:
        if "ece" in item.test and (curve := reliability_curve(item)):
            reliabilities.append(Reliability(label, item.kind, item.test["ece"].mean, curve.points))
            reliabilities += scaled_reliability(label, item, (scalings or {}).get(label))
    risks = [RiskCurve(label, item.kind, risky.points) for label, item in compared if (risky := risk_curve(item))]
    is_regression = any("mse" in item.test for _, item in compared)
    risk = "mean squared error" if is_regression else "share of errors"
    return (
        reliability_figure(reliabilities, name="reliability", title="Reliability on the test split"),
        risk_coverage_figure(risks, risk=risk, name="risk-coverage", title="Error among answered samples"),
    )


def scaled_reliability(label: str, item: Result, scaling: Scaling | None) -> list[Reliability]:
    """Return the reliability of a network after temperature scaling; nothing where that changes nothing."""
    if scaling is None or scaling.reliability is None or scaling.applied.mean == 1.0:
        return []
    name = f"{label}, scaled (T = {scaling.applied.mean:.3g})"
    return [Reliability(name, item.kind, scaling.metrics["ece"].mean, scaling.reliability.points)]


def rank_of(found: Findings, where: Tested) -> Table:
    """Rank the kinds of methods of a study."""
    results = {found.data_name: found.tested(where)}
    ranks = mean_ranks(results, [*found.metrics, *SHOWN_COSTS], found.task, where)
    return rank_table(ranks, where, name="ranks" if where == "test" else "ranks-shifted")


def result_point(item: Result, measured: Mapping[str, Spread], *, is_pick: bool) -> Point:
    """Return a configuration over its seeds as a point of a scatter plot."""
    spreads = {**measured, **item.costs}
    return Point(
        item.kind,
        item.label,
        {key: spread.mean for key, spread in spreads.items()},
        {key: spread.std for key, spread in spreads.items()},
        is_pick=is_pick,
        seeds=len(item.runs),
        details=Details(item.settings, shown_exits(item.config, item.eval_exits), train_command(item.config)),
        key=network_key(item.label, item.config, item.eval_exits),
    )
