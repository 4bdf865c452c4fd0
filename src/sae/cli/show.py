"""`sae show`."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sae.cli import options

if TYPE_CHECKING:
    from sae.analysis.network_plan import NetworkPlan, PlanRow
    from sae.data.binding import Whereabouts
    from sae.records.network import Network
    from sae.records.run import RunRecord

FORMATS = (".svg", ".png")
USED, PRUNED = "──", "┄┄"


@options.spread_groups
def show(
    run: Annotated[Path, typer.Argument(help="folder of a finished run, or of a study to show its pick")],
    *,
    eval_exits: options.EvalExits = None,
    out: Annotated[Path | None, typer.Option(help="draw into this file, ending in .svg or .png")] = None,
    source: options.RunDataOptions,
    json: options.Json = False,
) -> None:
    """Show what a trained network consists of: stages, exits in use, what was pruned, and the cost of each part."""
    from sae.analysis.network_plan import network_plan
    from sae.cli.output import print_json, print_message, say_exits

    where = source.where()
    check_drawing(out)
    record, chosen = find_run(run, eval_exits)
    network = record.read_network() or count_network(record, where)
    check_exits(network, chosen)
    if eval_exits is None and record.path == run:
        say_exits(run, chosen, len(network.readings))
    plan = network_plan(network, record.read_config(), record.label, chosen)
    if out is not None:
        from sae.report.files import write_drawing

        write_drawing(plan, out)
    if json:
        print_json({"run": str(record.path), **described(plan, network, chosen), "drawing": str(out) if out else None})
    elif out is None:
        print_plan(plan)
        if network.uncut is not None:
            print_message(f"the network is one piece up to its last used exit: {network.uncut}")
    else:
        print_message(f"the drawing is in {out}")


def find_run(folder: Path, eval_exits: int | None) -> "tuple[RunRecord, int]":
    """Return the run to show and K′; of a study the pick, at its own K′ unless another is given."""
    from sae.analysis.selection import select
    from sae.records.run import RunRecord
    from sae.records.study import StudyRecord

    if not (folder / StudyRecord.CONFIG).exists():
        record = RunRecord.open(folder)
        return record, record.exits_to_read(eval_exits)
    pick = select(StudyRecord.open(folder)).pick().candidate
    return pick.shipped.record, pick.eval_exits if eval_exits is None else eval_exits


def count_network(record: "RunRecord", where: "Whereabouts") -> "Network":
    """Count the parts of a run of an older version on its weights, and add them to its folder."""
    from sae.cli.output import print_message
    from sae.training.run import network_of

    network = network_of(record, where)
    print_message(f"counted on the weights, and kept in {record.path / record.NETWORK}")
    return network


def check_drawing(out: Path | None) -> None:
    """Refuse a path that cannot become a drawing, and drawing without what draws."""
    from sae.core.errors import ConfigError, require
    from sae.records.targets import check_target

    if out is None:
        return
    if out.suffix not in FORMATS or out.is_dir():
        raise ConfigError(f"--out must name a file that ends in {' or '.join(FORMATS)}, got {out}")
    if not Path(os.path.realpath(out)).parent.is_dir():
        raise ConfigError(f"the folder of --out must exist, got {out}: create {out.parent} first")
    check_target(out)
    require("altair", "--out")


def check_exits(network: "Network", eval_exits: int) -> None:
    """Refuse a number of exits at which the network cannot be read."""
    from sae.core.errors import ConfigError

    choices = [reading.eval_exits for reading in network.readings]
    if len(choices) == 1 and eval_exits not in choices:
        raise ConfigError(f"this network can be read in one way only, got --eval-exits {eval_exits}: leave it out")
    if eval_exits not in choices:
        raise ConfigError(f"--eval-exits must be one of {', '.join(map(str, choices))}, got {eval_exits}")


def described(plan: "NetworkPlan", network: "Network", eval_exits: int) -> dict[str, object]:
    """Return what `--json` prints: the members, the parts with their costs, their sum, and what was pruned away."""
    reading = network.at(eval_exits)
    return {
        "kind": plan.kind,
        "settings": plan.settings,
        "exits": eval_exits,
        "inputs": plan.num_inputs,
        "depth": plan.depth,
        "passes": plan.passes,
        **plan.used.model_dump(exclude={"name"}),
        "pruned": plan.pruned.model_dump(exclude={"name"}),
        "members": [member.model_dump() for member in reading.members],
        "parts": [part.model_dump() for part in reading.parts],
        "whole": [part.model_dump() for part in network.whole],
        **({} if network.uncut is None else {"uncut": network.uncut}),
    }


def print_plan(plan: "NetworkPlan") -> None:
    """Print the network as a drawing in text, and the costs of its parts as a table."""
    from sae.cli.output import print_line, print_table, print_text
    from sae.report.network_sections import parts_table

    print_text(f"{plan.name}: {plan.description}")
    for line in drawn_lines(plan):
        print_line(f"  {line}".rstrip())
    print_line("")
    print_table(parts_table(plan))


def drawn_lines(plan: "NetworkPlan") -> Iterator[str]:
    """Yield the lines of a drawing: a row for each part with its exit, and a column for each input or member."""
    if plan.networks:
        for name, share in zip(plan.columns, plan.shares, strict=True):
            yield f"{name}: stem ── {plan.depth} stages ── exit  {share:.2f}"
        yield f"prediction: weighted mean of {plan.num_predictions}"
        return
    stages = max(len(row.part.label) for row in plan.rows)
    exits = max(len(row.exit.part.label) for row in plan.rows if row.exit)
    wide = max(map(len, plan.columns))
    times = plan.num_inputs if plan.num_inputs > 1 else plan.passes
    yield f"{'':{stages + exits + 4}}  {'  '.join(f'{name:>{wide}}' for name in plan.columns)}"
    if times > 1:
        yield f"the sample, {times} times"
    for row in plan.rows:
        yield _drawn_row(row, stages, exits, wide)
    yield f"prediction: weighted mean of {plan.num_predictions}" if plan.num_predictions > 1 else "prediction"


def _drawn_row(row: "PlanRow", stages: int, exits: int, wide: int) -> str:
    if row.exit is None:
        return row.part.label
    is_used = any(row.exit.weights)
    label = f"{row.part.label:{stages}} {USED if is_used else PRUNED} {row.exit.part.label:{exits}}"
    cells = (f"{f'{weight:.2f}' if weight else '·':>{wide}}" for weight in row.exit.weights)
    return f"{label}  {'  '.join(cells)}{'' if is_used else '  pruned away'}"
