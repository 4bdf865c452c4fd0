"""`sae pareto`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sae.cli import options

if TYPE_CHECKING:
    from sae.analysis.candidates import Candidate
    from sae.analysis.selection import Selection

BARS = "▁▂▃▄▅▆▇█"
WIDEST = 40
"""Characters of the small picture of how the hypervolume grew."""


def pareto(
    study: options.Study,
    objectives: options.Objectives = None,
    max_: options.Maximum = None,
    min_: options.Minimum = None,
    method: options.Methods = None,
    csv: Annotated[Path | None, typer.Option(help="also write the front, with every metric, to this file")] = None,
    figure: Annotated[Path | None, typer.Option(help="also draw all configurations, a .png or .svg file")] = None,
    json: options.Json = False,
) -> None:
    """The configurations of a study that no other beats, by what validation says."""
    from sae.analysis.selection import select
    from sae.cli.output import print_json
    from sae.records.study import StudyRecord

    check_figure(figure)
    selection = select(
        StudyRecord.open(study),
        names=options.names("--objectives", objectives),
        maximum=options.bounds("--max", max_),
        minimum=options.bounds("--min", min_),
        methods=options.names("--method", method),
    )
    print_json(selection.describe()) if json else print_front(study, selection)
    write_files(selection, csv, figure, title=study.resolve().name)


def check_figure(path: Path | None) -> None:
    """Only what can be drawn without a browser."""
    from sae.core.errors import ConfigError

    if path is not None and path.suffix not in (".png", ".svg"):
        raise ConfigError(f"--figure must name a .png or .svg file, got {path}")


def print_front(study: Path, selection: "Selection") -> None:
    """A row for each configuration, then counts, then how the front grew."""
    from sae.analysis.candidates import damages
    from sae.analysis.progress import trial_counts
    from sae.cli.output import print_line, print_table
    from sae.core.objectives import COST_OBJECTIVES

    recorded = [item for item in COST_OBJECTIVES if any(item.name in found.values for found in selection.front)]
    shown = {item.name: item for item in (*selection.objectives, *recorded)}
    within = f", within {', '.join(map(str, selection.limits))}" if selection.limits else ""
    title = f"{study}: front of {', '.join(item.name for item in selection.objectives)} on validation{within}"
    rows = [
        [*labels(item), *(v.show(item.values[name]) if name in item.values else "-" for name, v in shown.items())]
        for item in selection.front
    ]
    print_table(title, ["trial", "kind", "settings", "K′", *shown], rows)
    if any(item.eval_exits != item.exits for item in selection.front):
        print_line("* read at another K than it was trained for: nothing has to be trained again")
    print_line(f"front: {len(selection.front)} of {len(selection.candidates)} configurations")
    print_line(f"trials: {count_line(trial_counts(selection.trials))}")
    for name, reason in damages(selection.trials, selection.everything).items():
        print_line(f"left out, damaged: {name}: {reason}")
    print_line(f"hypervolume: {history_line([row['hypervolume'] for row in selection.history()])}")


def labels(item: "Candidate") -> list[str]:
    """What tells a configuration from others; K′, which only SAE has, is marked where it is not the trained K."""
    from sae.analysis.candidates import summary

    mark = "*" if item.eval_exits != item.exits else ""
    exits = f"{item.eval_exits}{mark}" if item.trial.method == "sae" else "-"
    return [item.trial.name, item.kind, summary(item.config), exits]


def count_line(counts: Mapping[str, Mapping[str, int]]) -> str:
    """What became of the trials of each method.

    Example:
        >>> count_line({"sae": {"finished": 8, "stopped": 0, "failed": 1}, "standard": {"finished": 2}})
        'sae 8 finished, 1 failed; standard 2 finished'
    """
    methods = (
        f"{method} {', '.join(f'{number} {state}' for state, number in states.items() if number)}"
        for method, states in counts.items()
    )
    return "; ".join(methods)


def history_line(values: Sequence[float]) -> str:
    """How a number grew, from its first value to its last.

    Example:
        >>> history_line([0.1, 0.3, 0.45])
        '0.100 ▁▅█ 0.450, after 3 trials'
    """
    steps = min(len(values), WIDEST)
    shown = [values[(index + 1) * len(values) // steps - 1] for index in range(steps)]
    low, spread = values[0], (values[-1] - values[0]) or 1.0
    bars = "".join(BARS[round((value - low) / spread * (len(BARS) - 1))] for value in shown)
    trials = "trial" if len(values) == 1 else "trials"
    return f"{values[0]:.3f} {bars} {values[-1]:.3f}, after {len(values)} {trials}"


def write_files(selection: "Selection", csv: Path | None, figure: Path | None, title: str) -> None:
    """The front as a table for other programs, and a picture of it, where asked for."""
    from sae.cli.output import print_message

    if csv is not None:
        from sae.records.folder import Folder

        Folder(csv.parent).write_rows(csv.name, front_rows(selection.front))
        print_message(f"the front is in {csv}")
    if figure is not None:
        save_figure(selection, figure, title)
        print_message(f"the figure is in {figure}")


def front_rows(front: Sequence["Candidate"]) -> list[dict[str, Any]]:
    """One flat row for each configuration; a metric that was not recorded of one is left empty there."""
    described = [item.describe() for item in front]
    keys = dict.fromkeys(key for row in described for key in row["values"])
    return [
        {
            **{key: value for key, value in row.items() if key != "values"},
            "active": " ".join(map(str, row["active"])),
            **{key: row["values"].get(key, "") for key in keys},
        }
        for row in described
    ]


def save_figure(selection: "Selection", path: Path, title: str) -> None:
    """Draw a selection, the knee marked."""
    from sae.core.errors import ConfigError
    from sae.report.figures.search import pareto_figure

    title += f", within {', '.join(map(str, selection.limits))}" if selection.limits else ""
    chosen, _ = selection.pick()
    points = [
        {
            "kind": item.kind,
            "label": f"{item.trial.name}, K′={item.eval_exits}" if item.trial.method == "sae" else item.trial.name,
            "front": any(item is other for other in selection.front),
            "pick": item is chosen,
            **item.values,
        }
        for item in selection.candidates
    ]
    try:
        pareto_figure(points, selection.objectives, selection.history(), title=title).save(path, ppi=144)
    except OSError as error:
        raise ConfigError(f"--figure must name a file that can be written, got {path}: {error.strerror}") from None
