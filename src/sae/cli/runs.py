"""`sae runs` and `sae verify`."""

import shlex
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sae.cli import options

if TYPE_CHECKING:
    from sae.records.run import Run

USUAL = Path("runs")
LISTED_METRICS = ("f1", "nll", "cc_ece", "mse")
"""Metrics shown if any run has them; JSON has all."""
DROPPED = ("params", "ended", "seed", "time", "flops", "epochs")
"""Columns that are left out on a narrow terminal, in this order."""
MOST_ERRORS, LONGEST_ERROR = 5, 100


def runs(
    folder: Annotated[
        Path | None, typer.Argument(help="folder to search; by default `runs` if it exists, else the current folder")
    ] = None,
    sort: Annotated[str | None, typer.Option(help="column to sort by, best first, e.g. nll, flops or ended")] = None,
    state: Annotated[str | None, typer.Option(help="only runs in these states, e.g. finished,failed")] = None,
    method: Annotated[str | None, typer.Option(help="only these methods or classes, e.g. ensemble,EE")] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="also write TensorBoard event files into every listed run")
    ] = False,
    json: options.Json = False,
) -> None:
    """List all runs below a folder, including those of studies, with their state and main results."""
    from sae.analysis.run_list import describe, list_runs, select_runs, sort_runs
    from sae.cli.output import print_json
    from sae.core.errors import require

    if tensorboard:
        require("tensorboard", "--tensorboard")
    folder = folder or (USUAL if USUAL.is_dir() else Path())
    found = list_runs(folder)
    listed = select_runs(found, options.names("--state", state), options.names("--method", method))
    listed = sort_runs(listed, sort or "run")
    if json:
        print_json({"runs": [describe(run) for run in listed]})
    else:
        print_runs(folder, listed, len(found), sort)
    if tensorboard:
        write_events(folder, listed)


def verify(
    folder: Annotated[Path, typer.Argument(help="folder of a run, a study or a shipped model")],
    json: options.Json = False,
) -> None:
    """Say whether files are those that were written, by the hashes recorded with them, or which one was changed."""
    from sae.cli.output import print_json, print_line
    from sae.core.errors import RecordError
    from sae.deploy.verify import summary
    from sae.deploy.verify import verify as check

    checked = check(folder)
    said = summary(folder, checked)
    is_whole = not any(item.is_wrong for item in checked)
    if json:
        files = [{"file": str(item.file), "state": item.state} for item in checked]
        print_json({"folder": str(folder), "agrees": is_whole, "files": files})
    if not is_whole:
        raise RecordError(said)
    if not json:
        print_line(said)


def print_runs(folder: Path, listed: Sequence["Run"], num_found: int, sort: str | None) -> None:
    """Print a row for each run, counts by state, and the errors of runs without results."""
    from sae.cli.output import print_line, print_message, print_table
    from sae.core.table import text_table

    if not listed:
        print_line(f"no runs below {folder}" if not num_found else f"none of the {num_found} runs below {folder} match")
        return
    rows = table_rows(folder, listed, sort)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    data = set(columns["data"])
    if len(data) == 1:
        del columns["data"]
    dropped = drop_columns(columns, "time" if sort == "seconds" else sort)
    title = f"{len(listed)} of {num_found}" if len(listed) < num_found else f"{num_found}"
    on_data = f" on {data.pop()}" if len(data) == 1 else ""
    heading = f"{title} runs below {folder}{on_data}: test set, at the K′ that is best on validation"
    print_table(text_table(heading, list(columns), list(zip(*columns.values(), strict=True))))
    counts = Counter(run.state for run in listed)
    print_line(", ".join(f"{count} {state}" for state, count in counts.most_common()))
    print_errors(folder, listed)
    if dropped:
        print_message(
            f"columns left out because the terminal is too narrow: {', '.join(dropped)}; --json has everything"
        )


def table_rows(folder: Path, listed: Sequence["Run"], sort: str | None) -> list[dict[str, str]]:
    """Return the cells of each run by column."""
    from sae.analysis.run_list import num_epochs, number_of, sortable_numbers, values_on_test
    from sae.core.objectives import COSTS
    from sae.core.wording import duration

    values = [values_on_test(run) for run in listed]
    metrics = [name for name in LISTED_METRICS if any(name in found for found in values)]
    shown = {*metrics, *COSTS, "seed", "epochs", "seconds", "ended"}
    if sort in sortable_numbers() and sort not in shown:
        metrics.append(sort)
    rows = []
    for run, found in zip(listed, values, strict=True):
        config, ended, epochs = run.config, run.ended, num_epochs(run)
        planned = config.train.epochs if config else "?"
        rows.append(
            {
                "run": str(run.record.path.relative_to(folder)),
                "state": run.state,
                "data": Path(config.data.name).name if config else "-",
                "method": f"{config.kind} {config.summary}" if config else "-",
                "seed": show(config.seed if config else None, "d"),
                "epochs": f"{epochs}" if run.state == "finished" else f"{epochs}/{planned}",
                **{name: show(number_of(run, name), ".4f") for name in metrics},
                **{name: show_count(found.get(name)) for name in ("flops", "params")},
                "time": "-" if run.seconds is None else duration(run.seconds),
                "ended": f"{datetime.fromtimestamp(ended):%Y-%m-%d %H:%M}" if ended else "-",
            }
        )
    return rows


def drop_columns(columns: dict[str, list[str]], kept: str | None) -> list[str]:
    """Remove columns, except `kept`, until the rest fits the terminal; return the names of those removed."""
    from rich.cells import cell_len

    from sae.cli.output import result_console

    room, dropped = result_console().width, []
    for name in (name for name in DROPPED if name != kept):
        widths = [max(map(cell_len, [column, *cells])) for column, cells in columns.items()]
        if sum(widths) + 3 * len(widths) + 1 <= room:
            break
        del columns[name]
        dropped.append(name)
    return dropped


def print_errors(folder: Path, listed: Sequence["Run"]) -> None:
    """Print shortened errors of the first few runs that failed or are damaged."""
    from sae.cli.output import print_line

    told = [run for run in listed if run.state in ("failed", "damaged") and run.error]
    for run in told[:MOST_ERRORS]:
        error = " ".join(str(run.error).split())
        short = error if len(error) <= LONGEST_ERROR else f"{error[: LONGEST_ERROR - 1]}…"
        print_line(f"{run.state}: {run.record.path.relative_to(folder)}: {short}")
    if len(told) > MOST_ERRORS:
        print_line(f"and {len(told) - MOST_ERRORS} more, see --json")


def write_events(folder: Path, listed: Sequence["Run"]) -> None:
    """Write event files from the histories; skip and name runs that are being trained or cannot be read."""
    from sae.cli.output import print_message
    from sae.core.errors import RecordError
    from sae.training.tracking import TensorBoard

    events, written = TensorBoard(), 0
    for run in listed:
        if run.record.is_busy():
            print_message(f"skipped: {run.record.path} is being trained")
            continue
        try:
            with run.record.lock():
                written += events.write(run.record)
        except RecordError as error:
            print_message(f"skipped: {error}")
    print_message(f"{written} of {len(listed)} runs have event files: tensorboard --logdir {shlex.quote(str(folder))}")


def show(value: float | None, form: str) -> str:
    """Format a number; a missing one is a dash."""
    return "-" if value is None else format(value, form)


def show_count(value: float | None) -> str:
    """Format a count with three digits and a letter for its size; a missing one is a dash."""
    from sae.core.wording import short_count

    return "-" if value is None else short_count(value)
