"""The whole experiment as one resumable command: search, confirm, ship, report.

Each stage finds in the folder what an earlier session left there, so that the same command
continues at any point. The folder is a study folder: every other command reads it too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sae.analysis.selection import select
from sae.core.errors import ModelError, OtherModelError
from sae.records.study import StudyRecord
from sae.report.build import report_of
from sae.report.page import write_page
from sae.search.executors import Executor
from sae.search.plan import SearchPlan
from sae.search.run import run_study


@dataclass(frozen=True)
class Place:
    """Where an experiment is done.

    Attributes:
        out: The study folder that it leaves.
        executor: Where trials run.
        storage: URL of Optuna's database; by default a file in the folder.
        force: Whether to start over.
    """

    out: Path
    executor: Executor
    storage: str | None = None
    force: bool = False


def run_experiment(place: Place, plan: SearchPlan, on_word: Callable[[str], None]) -> dict[str, Any]:
    """Search, confirm, ship the pick and write the report; returns the receipt.

    Args:
        place: Where.
        plan: What is searched and confirmed.
        on_word: Says something to the person at the terminal.
    """
    record = run_study(place.out, plan, place.executor, place.storage, force=place.force, on_word=on_word)
    on_word("shipping the pick, and measuring it beside the best ensemble and standard network")
    try:
        receipt = ship(record)
    except Exception:  # a study of which nothing can be shipped has a report too, which says why
        try:
            write_report(record)
        except Exception as error:
            on_word(f"the report cannot be written either: {error}")
        raise
    write_report(record)
    return receipt


def ship(record: StudyRecord) -> dict[str, Any]:
    """Export the pick into the study folder; that of an earlier session, with fewer trials, gives way.

    A file there that no manifest describes does not: it may be the user's.
    """
    from sae.deploy.manifest import NAME
    from sae.deploy.receipt import ship_pick

    selection, model = select(record), record.path / record.SHIPPED / record.MODEL
    if model.exists() and not model.with_name(NAME).exists():
        what = f"{model.parent} must hold what the study has shipped, however nothing says what its {model.name} is"
        raise ModelError(f"{what}: move it away, and the same command continues")
    try:
        return ship_pick(selection, model)[1]
    except OtherModelError:
        return ship_pick(selection, model, force=True)[1]


def write_report(record: StudyRecord) -> None:
    """Write the page of a study into its folder."""
    write_page(report_of([record]), record.path / record.REPORT)
