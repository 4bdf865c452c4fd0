"""The stages of an experiment after its search; end_to_end tests all of it."""

from pathlib import Path
from typing import Any

import pytest

import sae.deploy.receipt
import sae.experiment
import sae.search.run
from sae.core.errors import ModelError, OtherModelError, ParityError, RecordError
from sae.experiment import experiment_layers, run_experiment, ship
from sae.records.receipt import Receipt, ReceiptIdentity, ReceiptPrediction
from sae.records.study import StudyRecord
from sae.search.executors.local import LocalExecutor
from sae.search.run import Place, resolve_search
from tests.studies import small_study

RECEIPT = Receipt(
    identity=ReceiptIdentity(sha256="", compared={}),
    why="it is the only one",
    task="classification",
    batch=64,
    noise=1.0,
    predicted=ReceiptPrediction(samples=1, right=1),
    rows={},
    ratios={},
)


class Shipping:
    """Replaces `ship_pick`: raises one error per call, then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.forced = list(errors), list[bool]()

    def __call__(self, _selection: Any, _model: Path, *, force: bool = False) -> tuple[None, Receipt]:
        self.forced.append(force)
        if self.errors:
            raise self.errors.pop(0)
        return None, RECEIPT


@pytest.fixture
def record(tmp_path: Path) -> StudyRecord:
    return small_study(tmp_path / "s").record


def test_a_model_of_an_earlier_session_gives_way(record: StudyRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    shipping = Shipping(OtherModelError("another is there"))
    monkeypatch.setattr(sae.deploy.receipt, "ship_pick", shipping)
    assert ship(record) is RECEIPT
    assert shipping.forced == [False, True]


@pytest.mark.parametrize("error", [ModelError("not ours"), ParityError("it predicts otherwise")])
def test_nothing_else_is_tried_again(error: Exception, record: StudyRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    shipping = Shipping(error)
    monkeypatch.setattr(sae.deploy.receipt, "ship_pick", shipping)
    with pytest.raises(type(error), match=str(error)):
        ship(record)
    assert shipping.forced == [False]


def test_a_file_of_the_user_s_is_not_replaced(record: StudyRecord) -> None:
    model = record.path / record.SHIPPED / record.MODEL
    model.parent.mkdir()
    model.write_text("mine")
    with pytest.raises(ModelError, match="move it away, and the same command continues"):
        ship(record)
    assert model.read_text() == "mine"


def run_with(record: StudyRecord, monkeypatch: pytest.MonkeyPatch, *, ships: bool, reports: bool) -> list[str]:
    """Run an experiment whose search is over; return the lines it printed."""
    said: list[str] = []

    def report(_studies: Any) -> None:
        if not reports:
            raise RecordError("no report")
        said.append("reported")

    monkeypatch.setattr(sae.experiment, "run_study", lambda *_, **__: record)
    monkeypatch.setattr(sae.experiment, "report_of", report)
    monkeypatch.setattr(sae.experiment, "write_page", lambda *_: None)
    monkeypatch.setattr(sae.deploy.receipt, "ship_pick", Shipping(*([] if ships else [ParityError("unlike")])))
    try:
        run_experiment(
            Place(record.path, LocalExecutor(1)), resolve_search(experiment_layers("digits", "small")), said.append
        )
    except (ParityError, RecordError) as error:
        said.append(str(error))
    return said[1:]


@pytest.mark.parametrize(
    ("ships", "reports", "said"),
    [
        (True, True, ["reported"]),
        (True, False, ["no report"]),
        (False, True, ["reported", "unlike"]),
        (False, False, ["the report cannot be written either: no report", "unlike"]),
    ],
)
def test_the_first_error_is_the_one_that_is_raised(
    ships: bool, reports: bool, said: list[str], record: StudyRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_with(record, monkeypatch, ships=ships, reports=reports) == said
