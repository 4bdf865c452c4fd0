"""Sections about the trials of a study: the front, the best N and K, depths, influences, and all trials."""

import random
import shlex
from collections.abc import Iterable, Mapping, Sequence

from sae.analysis.candidates import Candidate, damages
from sae.analysis.depth import depth_preference, input_preference, read_preferences
from sae.analysis.progress import trial_counts
from sae.analysis.results import Tested
from sae.analysis.selection import failures
from sae.analysis.trials import correlation_points, grid_means, influence
from sae.core.objectives import SHIFTED, objective
from sae.core.wording import count
from sae.records.evaluation import Where
from sae.report.content import Figure, Note, Section, section
from sae.report.figures.exits import depth_figure
from sae.report.figures.parallel import parallel_figure
from sae.report.figures.scatter import FLOPS, Details, Point, nll_pairs, under_shift, usual_pairs
from sae.report.figures.search import candidate_label, hypervolume_figure, search_scatter, thinned, tried_scatter
from sae.report.figures.trials import grid_figure, independence_figure
from sae.report.findings import Findings
from sae.report.labels import SHOWN_COSTS, network_key, shown_exits
from sae.report.tables import class_fronts_table, front_table, influence_table, trials_table

NONE_FINISHED = "No trial of a method with several exits has finished yet."
MOST_NOTES = 10
"""Failed and damaged trials that are named one by one."""
MOST_HISTORIES = 1_000
"""Trials whose training is averaged. More take seconds to read, and the means hardly change: a probability, whose
deviation is below 0.5, has a standard error below 0.016."""
TRIED_PLACES: dict[Where, str] = {
    "val": "validation data",
    "test": "test data",
    "shift": "corrupted test images",
}
NOT_CHOOSING = "Test values took no part in choosing: they were looked at afterwards."
GRID_TITLES: dict[Tested, str] = {
    "test": "Mean over trials, test split",
    "shift": "Mean over trials, corrupted test images",
}


def search_section(found: Findings) -> Section:
    """Show what was tried and the Pareto front."""
    counts = trial_counts(found.runs)
    states = (
        f"{method}: {', '.join(f'{number} {state}' for state, number in by_state.items() if number)}"
        for method, by_state in counts.items()
    )
    intro = f"Trials: {'; '.join(states) or 'none has begun'}. All numbers here are from the validation split."
    title, selection = "What the search found", found.selection
    front = selection.front if selection else ()
    strong = {id(item) for item in front}
    drawn = thinned(found.candidates, lambda item: id(item) in strong)
    points = candidate_points(drawn, front, found.pick, found.commands)
    pairs = usual_pairs(found.metrics, found.task)
    scatter = search_scatter(points, pairs, name="search", title="All candidates", total=len(found.candidates))
    if selection is None:
        return section("search", title, intro, Note(f"No Pareto front yet: {found.missing}."), scatter, *_notes(found))
    return section(
        "search",
        title,
        intro,
        scatter,
        _parallel(found, points),
        hypervolume_figure(selection.history(), name="hypervolume", title="Growth of the Pareto front"),
        front_table(selection, found.task, tolerance=found.tolerance),
        class_fronts_table(selection, found.task),
        *_notes(found),
    )


def _parallel(found: Findings, points: Sequence[Point]) -> Figure | None:
    """Draw candidates across the headline metrics, the study's objectives and the costs."""
    names = dict.fromkeys([*found.metrics, *(item.name for item in found.record.objectives), *SHOWN_COSTS])
    axes = [objective(name, found.task) for name in names if any(name in item.values for item in found.candidates)]
    title, total = "All metrics and costs of each candidate", len(found.candidates)
    return parallel_figure(points, axes, name="parallel", title=title, total=total)


def candidate_points(
    found: Sequence[Candidate], front: Sequence[Candidate], pick: Candidate | None, commands: Mapping[str, str]
) -> list[Point]:
    """Return candidates as points of a scatter plot, strong where they are on the front.

    Args:
        found: The candidates.
        front: Those that are Pareto-optimal.
        pick: The one to be ringed.
        commands: What trains each again, by its label.
    """
    strong = {id(item) for item in front}
    return [
        Point(
            item.kind,
            item.label,
            item.values,
            is_strong=id(item) in strong,
            is_pick=pick is not None and item.network == pick.network,
            details=Details(item.config.summary, shown_exits(item.config, item.eval_exits), commands[item.label]),
            key=network_key(item.label, item.config, item.eval_exits),
        )
        for item in found
    ]


def structure_section(found: Findings) -> Section:
    """Show which N and K did well."""
    configs = [run.config for run in found.runs if run.state == "finished" and run.config is not None]
    cells = [cell for config in configs if (cell := config.method.grid_cell()) is not None]
    intro = (
        "Trials by the number of inputs N and of exits K they were trained for. The trials of a cell differ in all "
        "other settings. The search returns to cells it likes with better settings, which flatters them."
    )
    if not cells:
        return section("structure", "Which N and K?", intro, Note(NONE_FINISHED))
    depth = max(config.backbone.depth for config in configs if config.method.grid_cell() is not None)
    inputs = max(inputs for inputs, _ in cells)
    figures = (
        grid_figure(
            [(objective(name, found.task), grid_means(found.runs, name, where)) for name in found.metrics],
            depth=depth,
            max_inputs=inputs,
            name=f"grid-{where}",
            title=title,
        )
        for where, title in GRID_TITLES.items()
    )
    correlations = correlation_points(run for run in found.runs if run.state == "finished")
    independence = independence_figure(correlations, name="independence", title="Do members err independently?")
    return section("structure", "Which N and K?", intro, *figures, independence)


def depth_section(found: Findings) -> Section:
    """Show which exits training preferred."""
    finished = [run for run in found.runs if run.state == "finished" and run.config is not None]
    runs = [run for run in finished if run.config is not None and run.config.method.has_exits]
    drawn = sorted(random.Random(0).sample(range(len(runs)), min(len(runs), MOST_HISTORIES)))
    preferences = read_preferences(runs[index] for index in drawn)
    depth = max((item.theta.shape[-1] for item in preferences), default=0)
    most = max((item.inputs for item in preferences), default=0)
    groups = [
        ("depth", "All trials with several exits", depth_preference(preferences)),
        ("depth-by-inputs", "By the number of inputs N", depth_preference(preferences, "inputs")),
        ("depth-by-exits", "By the number of exits K", depth_preference(preferences, "exits")),
        *([("depth-of-inputs", f"Each input, N={most}", input_preference(preferences, most))] if most > 1 else []),
    ]
    figures: list[Figure | Note | None] = [
        depth_figure(rows, depth=depth, name=name, title=title) for name, title, rows in groups if rows
    ]
    intro = "The probability of each exit during training. Without a preference it is 1 / number of exits."
    missing = Note(NONE_FINISHED) if not runs else _history_note(len(drawn) - len(preferences))
    some = Note(f"Means over {len(drawn):,} of the {len(runs):,} trials, drawn at random.")
    return section("depths", "Which depths?", intro, *figures, some if len(drawn) < len(runs) else None, missing)


def _history_note(number: int) -> Note | None:
    if not number:
        return None
    return Note(f"Left out, because their training history cannot be read: {count(number, 'trial')}.")


def influence_section(found: Findings) -> Section:
    """Show the effect of the settings of a method on its numbers."""
    influences = influence(found.runs, [*found.metrics, *SHOWN_COSTS], "test")
    intro = (
        "Rank correlation (Spearman's ρ) for continuous settings and analysis of variance (F) for N, K and W, over all "
        "finished trials of a method, on the test split. The search does not try settings at random, so nothing here "
        "proves a cause."
    )
    is_known = any(item.p is not None for item in influences)
    part = influence_table(influences) if is_known else Note("Too few trials have finished.")
    return section("influence-of-settings", "Which settings matter?", intro, part)


def trials_section(found: Findings) -> Section:
    """List all trials."""
    searched = [item.name for item in found.record.objectives if not item.is_cost and not item.is_shifted]
    metrics = list(dict.fromkeys([*found.metrics, *searched]))
    table = trials_table(found.runs, metrics, found.task)
    intro = (
        "All candidates on validation and test data, then all trials with the K they were trained for, on validation."
    )
    return section("all-trials", "All trials", intro, *_tried(found), table)


def _tried(found: Findings) -> list[Figure | None]:
    """Draw all candidates on validation, on test and on corrupted test images, with those that were trained again."""
    quality, calibration = (objective(name, found.task) for name in found.metrics[:2])
    pairs = [(calibration, quality), *nll_pairs(found.metrics, found.task), (FLOPS, quality)]
    again = {item.network for item in found.confirmed}
    figures = []
    for where, place in TRIED_PLACES.items():
        measured = [item for item in found.candidates if _is_measured(item, where)]
        points = [
            Point(
                item.kind,
                candidate_label(item),
                _values(item, where),
                is_strong=item.network in again,
                key=network_key(item.label, item.config, item.eval_exits),
            )
            for item in thinned(measured, lambda item: item.network in again)
        ]
        shown = under_shift(pairs) if where == "shift" else pairs
        remark = "These numbers chose." if where == "val" else NOT_CHOOSING
        title = f"All that was tried, on {place}"
        figures.append(
            tried_scatter(
                points,
                shown,
                name=f"tried-{where}",
                title=title,
                place=place,
                remark=remark,
                total=len(measured),
            )
        )
    return figures


def _is_measured(item: Candidate, where: Where) -> bool:
    assert item.run.evaluation is not None, "a candidate has finished"
    return bool(item.run.evaluation.metrics(where, item.eval_exits))


def _values(item: Candidate, where: Where) -> dict[str, float]:
    """Return the metrics of a candidate on a split or under shift, with its costs."""
    assert item.run.evaluation is not None, "a candidate has finished"
    measured = item.run.evaluation.metrics(where, item.eval_exits)
    suffix = SHIFTED if where == "shift" else ""
    costs = item.run.evaluation.costs(item.eval_exits)
    return {**{f"{key}{suffix}": value for key, value in measured.items()}, **costs}


def _notes(found: Findings) -> list[Note]:
    """Name up to `MOST_NOTES` trials that are left out, and count the rest."""
    losses = list(_losses(found))
    more = len(losses) - MOST_NOTES
    command = f"sae runs {shlex.quote(str(found.record.path))} --state failed,damaged"
    rest = [f"And {more} more: `{command}` lists them."] if more > 0 else []
    return [Note(text) for text in (*losses[:MOST_NOTES], *rest)]


def _losses(found: Findings) -> Iterable[str]:
    """Yield each trial that is left out, with the reason."""
    for name, reason in damages(found.runs).items():
        yield f"Left out because it is damaged: {name}: {reason}"
    for name, reason in failures(found.runs).items():
        yield f"Failed: {name}: {reason}"
