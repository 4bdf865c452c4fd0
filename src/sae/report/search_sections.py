"""Sections about the trials of a study: what was found, which N, K, depths and settings did well, and all there is."""

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from sae.analysis.candidates import Candidate, damages, summary
from sae.analysis.depth import depth_preference, input_preference, read_preferences
from sae.analysis.grids import grid_means
from sae.analysis.influence import influence
from sae.analysis.progress import trial_counts
from sae.analysis.selection import failures
from sae.core.objectives import objective
from sae.report.commands import train_command
from sae.report.content import Figure, Note, Section, section
from sae.report.figures.depth import depth_figure
from sae.report.figures.heat import grid_figure
from sae.report.figures.search import hypervolume_figure, search_scatter
from sae.report.findings import COSTS, Findings
from sae.report.tables import class_fronts_table, front_table, influence_table, trials_table

MOST_NOTES = 10
"""Trials whose end is told one by one."""


def search_section(found: Findings) -> Section:
    """What was tried, and what no other beats."""
    counts = trial_counts(found.record.trials())
    told = (
        f"{method} {', '.join(f'{count} {state}' for state, count in states.items() if count)}"
        for method, states in counts.items()
    )
    intro = f"Trials: {'; '.join(told) or 'none has begun'}. Everything here is of the validation split."
    title, selection = "What the search found", found.selection
    commands = {item.trial.name: train_command(item.config) for item in _one_of_each_trial(found.candidates)}
    front = {id(item) for item in selection.front} if selection else set()
    points = [
        {**_point(item), "front": id(item) in front, "pick": item is found.pick, "command": commands[item.trial.name]}
        for item in found.candidates
    ]
    scatter = search_scatter(points, found.pairs(), name="search", title="Every configuration tried")
    if selection is None:
        return section("search", title, intro, Note(f"No front yet: {found.missing}."), scatter, *_notes(found))
    return section(
        "search",
        title,
        intro,
        scatter,
        hypervolume_figure(selection.history(), name="hypervolume", title="How the front grew"),
        front_table(selection, found.task),
        class_fronts_table(selection, found.task),
        *_notes(found),
    )


def structure_section(found: Findings) -> Section:
    """Which N and K the trials liked."""
    finished = [item.config for item in found.trials if item.state == "finished"]
    configs = [config for config in finished if config.method.name == "sae"]
    intro = (
        "SAE's trials by the number of inputs N and of exits K they were trained for. Means are over trials that "
        "differ in everything else, and a sampler that liked a cell has been there often, with the best of the others."
    )
    if not configs:
        return section("structure", "Which N and K?", intro, Note("No SAE has finished yet."))
    depth = max(config.backbone.depth for config in configs)
    inputs = max(getattr(config.method, "inputs", 1) for config in configs)
    places = (("test", "Mean over trials, test split"), ("shift", "Mean over trials, corrupted test images"))
    figures = (
        grid_figure(
            [(objective(name, found.task), grid_means(found.trials, name, where)) for name in found.metrics],  # type: ignore[arg-type]
            depth=depth,
            max_inputs=inputs,
            name=f"grid-{where}",
            title=title,
        )
        for where, title in places
    )
    return section("structure", "Which N and K?", intro, *figures)


def depth_section(found: Findings) -> Section:
    """Which exits training came to prefer."""
    runs = [item.trial.run for item in found.trials if item.state == "finished" and item.config.method.name == "sae"]
    preferences = read_preferences(runs)
    depth = max((item.theta.shape[-1] for item in preferences), default=0)
    most = max((item.inputs for item in preferences), default=0)
    groups = [
        ("depth", "All SAE trials", depth_preference(preferences)),
        ("depth-by-inputs", "By the number of inputs N", depth_preference(preferences, "inputs")),
        ("depth-by-exits", "By the number of exits K", depth_preference(preferences, "exits")),
        *([("depth-of-inputs", f"Input by input, N={most}", input_preference(preferences, most))] if most > 1 else []),
    ]
    figures: list[Figure | Note | None] = [
        depth_figure(rows, depth=depth, name=name, title=title) for name, title, rows in groups if rows
    ]
    intro = "The probability of each exit while training goes on; one over the number of exits means no preference."
    missing = Note("No SAE has finished yet.") if not runs else _without_history(len(runs) - len(preferences))
    return section("depths", "Which depths?", intro, *figures, missing)


def _without_history(count: int) -> Note | None:
    trials = "1 SAE trial is" if count == 1 else f"{count} SAE trials are"
    return Note(f"{trials} left out, without a history that can be read.") if count else None


def influence_section(found: Findings) -> Section:
    """What the settings of an SAE did to its numbers."""
    rows = influence(found.trials, [*found.metrics, *COSTS], "test")
    intro = (
        "Rank correlation (Spearman) for continuous settings, analysis of variance (F) for N, K and W, over SAE's "
        "trials, on the test split. A search does not try settings at random, so that none of it proves a cause."
    )
    is_known = any(row["p"] is not None for row in rows)
    part = influence_table(rows) if is_known else Note("Too few SAE trials have finished to tell.")
    return section("influence-of-settings", "Which settings matter?", intro, part)


def trials_section(found: Findings) -> Section:
    """All that was tried."""
    searched = [item.name for item in found.record.objectives if not item.is_cost and not item.is_shifted]
    metrics = list(dict.fromkeys([*found.metrics, *searched]))
    table = trials_table(found.trials, metrics, found.task)
    return section("all-trials", "All trials", "At the K they were trained for, on validation.", table)


def _one_of_each_trial(found: Sequence[Candidate]) -> list[Candidate]:
    """A network is the same at every K′."""
    return list({item.trial.name: item for item in found}.values())


def _point(item: Candidate) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "label": item.trial.name,
        "settings": summary(item.config),
        "eval_exits": item.eval_exits,
        **item.values,
    }


def _notes(found: Findings) -> list[Note]:
    """What was left out and why, up to `MOST_NOTES`, and how many more there are."""
    losses = list(_losses(found))
    more = len(losses) - MOST_NOTES
    command = f"sae runs {shlex.quote(str(found.record.path))} --state failed,damaged"
    rest = [f"And {more} more: `{command}` lists them."] if more > 0 else []
    return [Note(text) for text in (*losses[:MOST_NOTES], *rest)]


def _losses(found: Findings) -> Iterable[str]:
    """What was left out, by its reason."""
    trials = list(found.record.trials())
    for name, reason in damages(trials, found.candidates).items():
        yield f"Left out, damaged: {name}: {reason}"
    for name, reason in failures(trials).items():
        yield f"Failed: {name}: {reason}"
