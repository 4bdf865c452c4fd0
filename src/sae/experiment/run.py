"""The stages of an experiment: search, confirm, ship, report.

Each stage first looks in the folder for what an earlier session finished, so the same command
continues at any point. The folder is a study folder, which every other command can read.
"""

from sae.analysis.selection import select
from sae.core.errors import ModelError, OtherModelError
from sae.records.receipt import Receipt
from sae.records.study import StudyRecord
from sae.report.build import report_of
from sae.report.page import write_page
from sae.search.plan import SearchPlan
from sae.search.run import Place, Say, run_study


def run_experiment(place: Place, plan: SearchPlan, say: Say) -> Receipt:
    """Search, confirm, ship the pick and write the report; return the receipt.

    Args:
        place: Where the study runs and where its results go.
        plan: The search and its confirmation.
        say: Prints a line of progress.
    """
    record = run_study(place, plan, say)
    say("shipping the pick, and measuring it beside the best ensemble and the best standard network")
    try:
        receipt = ship(record)
    except Exception:  # a study without anything to ship gets a report too, which says why
        try:
            write_report(record)
        except Exception as error:
            say(f"the report cannot be written either: {error}")
        raise
    write_report(record)
    return receipt


def ship(record: StudyRecord) -> Receipt:
    """Export the pick into the study folder and return its receipt.

    The pick of an earlier session is replaced. A model without a manifest is not: it may be the user's own file.
    """
    from sae.deploy.manifest import NAME
    from sae.deploy.receipt import ship_pick

    selection, model = select(record), record.path / record.SHIPPED / record.MODEL
    if model.exists() and not model.with_name(NAME).exists():
        raise ModelError(
            f"{model} must have been written by this study, but there is no {NAME} beside it: "
            f"move it away, and the same command continues"
        )
    try:
        return ship_pick(selection, model)[1]
    except OtherModelError:
        return ship_pick(selection, model, force=True)[1]


def write_report(record: StudyRecord) -> None:
    """Write the report page of a study into its folder."""
    write_page(report_of([record]), record.path / record.REPORT)
