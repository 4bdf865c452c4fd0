"""The commands that read a study, `sae pareto` and `sae pick`, and its results on the terminal."""

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sae.cli import options
from sae.core.collection import paused_collection

if TYPE_CHECKING:
    from sae.analysis.candidates import Candidate
    from sae.analysis.recommendation import Recommendation
    from sae.analysis.selection import Pick, Selection
    from sae.core.table import Table
    from sae.records.baselines import Baselines, Measured
    from sae.records.evaluation import Json
    from sae.records.run import Run


K_PRIME = "K′"
BARS = "▁▂▃▄▅▆▇█"
WIDEST = 40
"""Largest width of the bars that show how the hypervolume grew."""


@paused_collection()
def pareto(
    study: options.Study,
    objectives: options.Objectives = None,
    shift: options.UnderShift = False,
    max_: options.Maximum = None,
    min_: options.Minimum = None,
    method: options.Methods = None,
    tolerance: options.Tolerance = None,
    csv: Annotated[Path | None, typer.Option(help="also write the front, with every metric, to this file")] = None,
    figure: Annotated[
        Path | None, typer.Option(help="also draw all configurations into this .png or .svg file")
    ] = None,
    json: options.Json = False,
) -> None:
    """Show the Pareto-optimal configurations of a study, compared on the validation split, clean or corrupted."""
    from sae.analysis.selection import select
    from sae.cli.output import print_json
    from sae.records.study import StudyRecord
    from sae.records.targets import check_target

    check_figure(figure)
    for option, path in (("--csv", csv), ("--figure", figure)):
        if path is not None:
            check_target(path, option)
    record = StudyRecord.open(study)
    selection = select(
        record,
        names=options.names("--objectives", objectives),
        shift=shift,
        maximum=options.bounds("--max", max_),
        minimum=options.bounds("--min", min_),
        methods=options.names("--method", method),
    )
    print_json(selection.describe()) if json else print_front(study, selection, record.config.task, tolerance)
    write_files(selection, csv, figure, title=study.resolve().name)


@paused_collection()
def pick(
    study: options.Study,
    prefer: options.Prefer = None,
    objectives: options.Objectives = None,
    shift: options.UnderShift = False,
    max_: options.Maximum = None,
    min_: options.Minimum = None,
    weight: options.Weights = None,
    method: options.Methods = None,
    json: options.Json = False,
) -> None:
    """Pick one configuration of a study on the validation split, and explain why."""
    from sae.analysis.baselines import compare_with_baselines
    from sae.analysis.recommendation import recommend
    from sae.analysis.selection import preferred, select
    from sae.cli.output import print_json, print_line
    from sae.records.study import StudyRecord

    record = StudyRecord.open(study)
    runs = record.read_runs()
    selection = select(
        record,
        names=options.names("--objectives", objectives),
        prefer=prefer,
        shift=shift,
        maximum=options.bounds("--max", max_),
        minimum=options.bounds("--min", min_),
        methods=options.names("--method", method),
        runs=runs,
    )
    picked = selection.pick(preferred(record, prefer, shift=shift), options.bounds("--weight", weight))
    found = recommend(picked.candidate, runs, record.read_plan(), record.num_again())
    beside = compare_with_baselines(record, picked.candidate)
    print_json(describe(picked, found, beside)) if json else print_pick(picked, found, beside)
    if not json:
        given = [("--prefer", prefer), *(("--max", one) for one in max_ or ()), *(("--min", one) for one in min_ or ())]
        run = picked.candidate if shift or objectives or weight else None  # `sae export STUDY` does not choose by them
        print_line(f"export it:      {export_command(study, [*given, ('--method', method)], run)}")


def check_figure(path: Path | None) -> None:
    """Refuse a file type that cannot be drawn without a browser, and drawing without what draws."""
    from sae.core.errors import ConfigError, require

    if path is None:
        return
    if path.suffix not in (".png", ".svg"):
        raise ConfigError(f"--figure must name a .png or .svg file, got {path}")
    require("altair", "--figure")


def print_front(study: Path, selection: "Selection", task: str, tolerance: float | None = None) -> None:
    """Print a row for each configuration of the front, then counts and the growth of the hypervolume."""
    from dataclasses import replace

    from sae.analysis.candidates import damages
    from sae.analysis.progress import trial_counts
    from sae.cli.output import print_message, print_table, print_text
    from sae.core.wording import count

    within = f", within {', '.join(map(str, selection.limits))}" if selection.limits else ""
    place = "corrupted validation images" if selection.is_shifted else "validation"
    title = f"{study}: front of {', '.join(item.name for item in selection.objectives)} on {place}{within}"
    table, dropped = fitting_table(selection, task, tolerance)
    print_table(replace(table, title=title))
    if K_PRIME not in dropped and any(item.eval_exits != item.exits for item in selection.front):
        print_text(
            "K′: most exits per input that an SAE predicts from; it was trained with K, K′ needs no new training"
        )
    folded = len(selection.front) - len(table.rows)
    if folded:
        print_text(f"alike: {count(folded, 'candidate')} nearly the same as a row above; --tolerance 0 shows all")
    print_text(f"front: {len(selection.front)} of {len(selection.candidates)} candidates")
    print_text(f"trials: {count_line(trial_counts(selection.runs))}")
    for name, reason in damages(selection.runs).items():
        print_text(f"left out because it is damaged: {name}: {reason}")
    print_text(f"hypervolume: {history_line([item.hypervolume for item in selection.history()])}")
    if dropped:
        print_message(
            f"columns left out because the terminal is too narrow: {', '.join(dropped)}; --json has everything"
        )


def fitting_table(selection: "Selection", task: str, tolerance: float | None) -> tuple["Table", list[str]]:
    """Return the table of the front with all costs that fit the terminal, and the names of the others.

    K′ goes last, since the exits in use say more; exits of networks without any are not shown. If the rest does not fit
    either, its columns are printed in several parts.
    """
    from sae.cli.output import fits, with_columns
    from sae.core.objectives import ALL_COSTS
    from sae.report.tables import front_table

    costs = [name for name in ALL_COSTS if any(name in item.values for item in selection.front)]
    compared = {item.name for item in selection.objectives}
    dropped: list[str] = []
    while True:
        shown = [name for name in costs if name not in dropped]
        table = front_table(selection, task, costs=shown, tolerance=tolerance)
        known = [
            index for index in range(len(table.columns)) if any(row[index].value is not None for row in table.rows)
        ]
        table = with_columns(table, known)
        left = [name for name in costs if name not in compared and name not in dropped]
        if fits(table):
            return table, dropped
        if not left:
            kept = [index for index, column in enumerate(table.columns) if column.title != K_PRIME]
            return with_columns(table, kept), [*([K_PRIME] if len(kept) < len(table.columns) else []), *dropped]
        dropped.insert(0, left[-1])


def count_line(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Format how many trials of each method are in each state.

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
    """Format the growth of a number as bars between its first and last value.

    Example:
        >>> history_line([0.1, 0.3, 0.45])
        '0.100 ▁▅█ 0.450, after 3 trials'
    """
    from sae.core.wording import count

    steps = min(len(values), WIDEST)
    shown = [values[(index + 1) * len(values) // steps - 1] for index in range(steps)]
    low, spread = values[0], (values[-1] - values[0]) or 1.0
    bars = "".join(BARS[round((value - low) / spread * (len(BARS) - 1))] for value in shown)
    return f"{values[0]:.3f} {bars} {values[-1]:.3f}, after {count(len(values), 'trial')}"


def write_files(selection: "Selection", csv: Path | None, figure: Path | None, title: str) -> None:
    """Write the front as CSV and draw the configurations, if these files were asked for."""
    from sae.cli.output import print_message

    if csv is not None:
        from sae.records.folder import write_csv
        from sae.records.targets import write_target

        write_target(csv, partial(write_csv, front_rows(selection.front)), "--csv")
        print_message(f"the front is in {csv}")
    if figure is not None:
        save_figure(selection, figure, title)
        print_message(f"the figure is in {figure}")


def front_rows(front: Sequence["Candidate"]) -> list[dict[str, object]]:
    """Return one flat row for each configuration; a metric that it does not have is empty."""
    keys = dict.fromkeys(key for item in front for key in item.values)
    return [
        {
            **{key: value for key, value in item.describe().items() if key != "values"},
            "active": " ".join(map(str, item.active)),
            **{key: item.values.get(key, "") for key in keys},
        }
        for item in front
    ]


def save_figure(selection: "Selection", path: Path, title: str) -> None:
    """Draw a selection with its knee marked."""
    from sae.core.errors import ConfigError, RecordError
    from sae.report.figures.search import pareto_figure
    from sae.report.files import save_chart

    title += f", within {', '.join(map(str, selection.limits))}" if selection.limits else ""
    try:
        save_chart(pareto_figure(selection, title=title), path)
    except RecordError as error:
        raise ConfigError(f"--figure must name a file that can be written, but {error}") from None


def describe(picked: "Pick", found: "Recommendation", beside: "tuple[Baselines, Measured] | None") -> "Json":
    """Return the pick as a JSON object; `test` was not used for choosing."""
    from sae.analysis.baselines import to_json

    chosen = picked.candidate
    return {
        **chosen.describe(),
        "why": picked.why,
        "chosen_by": chosen.chosen_by(),
        "recommendation": {"state": found.state, "sentence": found.sentence},
        "baselines": to_json(*beside) if beside else None,
        "test": dict(metrics_on_test(chosen.shipped, chosen.eval_exits)),
        "commands": commands(chosen),
    }


def metrics_on_test(run: "Run", eval_exits: int) -> Mapping[str, float]:
    """Return the test metrics of a run of the pick, which was chosen without them."""
    assert run.evaluation is not None, "a candidate has finished"
    return run.evaluation.test.at(eval_exits).metrics


def commands(chosen: "Candidate") -> dict[str, str]:
    """Return the commands that train the configuration again and evaluate it."""
    from sae.report.commands import train_command

    exits = f" --eval-exits {chosen.eval_exits}" if chosen.config.method.has_exits else ""
    return {
        "train": train_command(chosen.config, "runs/picked"),
        "evaluate": f"sae evaluate {shlex.quote(str(chosen.shipped.record.path))}{exits}",
    }


def export_command(study: Path, flags: Sequence[tuple[str, str | None]] = (), chosen: "Candidate | None" = None) -> str:
    """Return the command that exports what these options of `sae pick` choose from a study, or a network by itself."""
    if chosen is not None:
        exits = f" --eval-exits {chosen.eval_exits}" if chosen.config.method.has_exits else ""
        return f"sae export {shlex.quote(str(chosen.shipped.record.path))}{exits} --out shipped/model.onnx"
    given = [f"{flag} {shlex.quote(value)}" for flag, value in flags if value is not None]
    return " ".join(["sae export", shlex.quote(str(study)), *given, "--out shipped/model.onnx"])


def print_pick(picked: "Pick", found: "Recommendation", beside: "tuple[Baselines, Measured] | None" = None) -> None:
    """Print the recommendation, the reason, its metrics and costs, its run folder and what to do next.

    If a simple baseline is better, that comes first.
    """
    from sae.analysis.baselines import verdict
    from sae.analysis.statistics import spreads_of
    from sae.cli.output import (
        COST_ROWS,
        SHIPPED_COST_ROWS,
        listed_metrics,
        metric_name,
        print_line,
        print_table,
        print_text,
    )
    from sae.core.objectives import SHIFTED
    from sae.core.table import MISSING, four_digits, text_table
    from sae.core.wording import count

    chosen = picked.candidate
    print_text(f"{found.after(verdict(*beside) if beside else None)}{trained_for(chosen)}")
    print_text(f"why: {picked.why}")
    test, target = metrics_on_test(chosen.shipped, chosen.eval_exits), chosen.config.data.unit
    again = spreads_of(metrics_on_test(run, chosen.eval_exits) for run in chosen.again)
    shifted = {key: chosen.values.get(f"{key}{SHIFTED}") for key in test} if chosen.has_shift else {}
    rows = [
        [
            metric_name(key, target),
            four_digits(chosen.values[key]),
            *([four_digits(value) if (value := shifted[key]) is not None else MISSING] if shifted else []),
            *([four_digits(again[key].mean) if key in again else MISSING] if again else []),
            four_digits(test[key]),
        ]
        for key in listed_metrics()
        if key in chosen.values and key in test
    ]
    seeds = f", mean of {count(len(chosen.again), 'new seed')}" if again else ""
    heads = [f"{split}validation{seeds}" for split in ("", *(["corrupted "] if shifted else []))]
    heads += [f"test{seeds}", "test, the network to ship"] if again else ["test (not used for choosing)"]
    costs = {name: f"{chosen.values[key]:,}" for name, key in (COST_ROWS | SHIPPED_COST_ROWS).items()}
    if "latency" in chosen.values:
        costs["ms for a batch of 64"] = f"{chosen.values['latency']:.4g}"
    rows += [[name, *[value] * len(heads)] for name, value in costs.items()]
    print_table(text_table("metrics and costs", ["", *heads], rows))
    print_line(f"run folder:     {chosen.shipped.record.path}")
    print_line(f"train it again: {commands(chosen)['train']}")
    print_line(f"look closer:    {commands(chosen)['evaluate']}")


def trained_for(chosen: "Candidate") -> str:
    """Format K′ of a network with exits, which other commands take, and whether it is the K it was trained for."""
    if not chosen.config.method.has_exits:
        return ""
    trained = "as trained" if chosen.eval_exits == chosen.exits else f"trained with K={chosen.exits}"
    return f" (K′={chosen.eval_exits}, {trained}.)"
