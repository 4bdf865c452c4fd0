"""`sae pick`."""

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sae.cli import options

if TYPE_CHECKING:
    from sae.analysis.candidates import Candidate


def pick(
    study: options.Study,
    prefer: Annotated[
        str | None,
        typer.Option(help="metric or cost in which the pick must be best; by default the best compromise (the knee)"),
    ] = None,
    objectives: options.Objectives = None,
    max_: options.Maximum = None,
    min_: options.Minimum = None,
    method: options.Methods = None,
    json: options.Json = False,
) -> None:
    """Pick one configuration of a study on the validation split, and explain why."""
    from sae.analysis.selection import preferred, select
    from sae.cli.output import print_json
    from sae.records.study import StudyRecord

    record = StudyRecord.open(study)
    selection = select(
        record,
        names=options.names("--objectives", objectives),
        prefer=prefer,
        maximum=options.bounds("--max", max_),
        minimum=options.bounds("--min", min_),
        methods=options.names("--method", method),
    )
    chosen, why = selection.pick(preferred(record, prefer))
    print_json(describe(chosen, why)) if json else print_pick(chosen, why)


def describe(chosen: "Candidate", why: str) -> dict[str, Any]:
    """Return the pick as a JSON object; `test` was not used for choosing."""
    return {**chosen.describe(), "why": why, "test": metrics_on_test(chosen), "commands": commands(chosen)}


def metrics_on_test(chosen: "Candidate") -> dict[str, float]:
    """Return the test metrics of the pick, which was chosen without them."""
    from sae.records.run import at_exits

    return dict(at_exits(chosen.trial.run.report("test")["by_exits"], chosen.eval_exits)["metrics"])


def commands(chosen: "Candidate") -> dict[str, str]:
    """Return the commands that train the configuration again and evaluate it."""
    from sae.report.commands import train_command

    run = chosen.trial.run
    exits = f" --eval-exits {chosen.eval_exits}" if chosen.config.method.has_exits else ""
    return {
        "train": train_command(chosen.config, "runs/picked"),
        "evaluate": f"sae evaluate {shlex.quote(str(run.path))}{exits}",
    }


def print_pick(chosen: "Candidate", why: str) -> None:
    """Print the pick, the reason, its metrics and costs, its run folder and what to do next."""
    from sae.analysis.candidates import summary
    from sae.cli.output import COSTS, SHIPPED_COSTS, SHORT_NAMES, listed_metrics, print_line, print_table

    print_line(f"{chosen.trial.name}: {chosen.kind}, {summary(chosen.config)}{exits_used(chosen)}")
    print_line(f"why: {why}")
    test = metrics_on_test(chosen)
    rows = [
        [SHORT_NAMES.get(key, key), f"{chosen.values[key]:.4f}", f"{test[key]:.4f}"]
        for key in listed_metrics()
        if key in chosen.values and key in test
    ]
    costs = {name: key for name, key in (COSTS | SHIPPED_COSTS).items() if key in chosen.values}
    rows += [[name, *[f"{chosen.values[key]:,}"] * 2] for name, key in costs.items()]
    if "latency" in chosen.values:
        rows.append(["ms for a batch of 64", *[f"{chosen.values['latency']:.4g}"] * 2])
    print_table("metrics and costs", ["", "validation", "test (not used for choosing)"], rows)
    print_line(f"run folder:     {chosen.trial.run.path}")
    print_line(f"train it again: {commands(chosen)['train']}")
    print_line(f"look closer:    {commands(chosen)['evaluate']}")


def exits_used(chosen: "Candidate") -> str:
    """Format K′ of a network with exits and the exits that any of its inputs uses, which determine its cost."""
    if not chosen.config.method.has_exits:
        return ""
    used = [str(number) for number, inputs in enumerate(chosen.active, start=1) if inputs]
    trained = "as trained" if chosen.eval_exits == chosen.exits else f"trained with K={chosen.exits}"
    noun = "exit" if len(used) == 1 else "exits"
    return f", read at K′={chosen.eval_exits} ({trained}), using {noun} {', '.join(used)} of {len(chosen.active)}"
