"""What a search or an experiment prints at its end: the pick, and how it was confirmed."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sae.cli.study import describe, print_front, print_pick

if TYPE_CHECKING:
    from sae.analysis.selection import Selection
    from sae.records.study import StudyRecord


def print_results(out: Path, *, json: bool, more: Mapping[str, object] | None = None) -> None:
    """Print the front, its confirmed configurations and the pick; `more` is added to the JSON."""
    from sae.analysis.baselines import compare_with_baselines
    from sae.analysis.recommendation import recommend
    from sae.analysis.selection import select
    from sae.cli.output import print_json
    from sae.records.study import StudyRecord

    record = StudyRecord.open(out)
    runs = record.read_runs()
    selection = select(record, runs=runs)
    picked = selection.pick()
    recommended = recommend(picked.candidate, runs, record.read_plan(), record.num_again())
    beside = compare_with_baselines(record, picked.candidate)
    if json:
        confirmed = record.read_confirmed()
        found = confirmed.model_dump(mode="json") if confirmed else None
        answer = {
            "pick": describe(picked, recommended, beside),
            "confirmed": found,
            **(more or {}),
        }
        print_json({"study": str(out), **selection.describe(), **answer})
        return
    print_front(out, selection, record.config.task)
    print_confirmed(record, selection)
    print_pick(picked, recommended, beside)
    print_shifted(record, out, selection)


def print_confirmed(record: "StudyRecord", selection: "Selection") -> None:
    """Print the results of the front on other seeds, on the test split and under shift; nothing if there are none."""
    from sae.analysis.results import study_results
    from sae.cli.output import print_line, print_table
    from sae.core.wording import count
    from sae.report.labels import headline
    from sae.report.tables import confirmed_table

    results, _ = study_results(record)
    if not results:
        return
    present = {(item.label, item.eval_exits) for item in selection.front}
    confirmed = [item for item in results if (item.label, item.eval_exits) in present]
    shown = [*confirmed, *(item for item in results if item.config.teacher)]
    if shown:
        metrics = headline(record.config.task, record.data_name)
        print_table(confirmed_table(shown, metrics, record.config.task, title="trained again on other seeds"))
    missing = len(selection.front) - len(confirmed)
    if missing:
        print_line(f"{count(missing, 'configuration')} of the front not confirmed; --confirm SEEDS confirms all")


def print_shifted(record: "StudyRecord", out: Path, clean: "Selection") -> None:
    """Print the size of the front under shift, and how to see it; nothing if the study has none."""
    from sae.analysis.selection import select
    from sae.cli.output import print_line
    from sae.core.errors import SaeError
    from sae.core.wording import count

    if record.config.shift_sets is None:
        return
    try:
        front = select(record, runs=clean.runs, shift=True).front
    except SaeError as error:
        print_line(f"under shift:    {error}")
        return
    confirmed = record.read_confirmed()
    again = f", {len(confirmed.shifted)} trained again" if confirmed and confirmed.shifted else ""
    command = f"sae pareto {shlex.quote(str(out))} --shift"
    networks = [{(item.label, item.eval_exits) for item in found} for found in (front, clean.front)]
    which = "the same front" if networks[0] == networks[1] else "another front"
    print_line(f"under shift:    {which}, of {count(len(front), 'configuration')}{again}: `{command}`")
