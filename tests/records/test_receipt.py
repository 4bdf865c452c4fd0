"""Receipts: JSON in, the same JSON out."""

import json
from pathlib import Path

import pytest

from sae.core.errors import RecordError
from sae.records.receipt import ReceiptPrediction, read_receipt

STORED = Path(__file__).parents[1] / "golden" / "study" / "shipped" / "receipt.json"


def test_a_stored_receipt_is_written_as_it_was_read_down_to_the_order_of_keys() -> None:
    receipt = read_receipt(STORED)
    assert json.dumps(receipt.to_json(), indent=2, allow_nan=False) + "\n" == STORED.read_text(encoding="utf-8")
    assert next(iter(receipt.rows)) == "pick"
    assert set(receipt.ratios) == set(receipt.identity.compared)


def test_a_prediction_lists_only_what_its_task_has() -> None:
    assert ReceiptPrediction(samples=3, right=2).model_dump() == {"samples": 3, "right": 2}
    assert ReceiptPrediction(samples=3, rmse=0.5).model_dump() == {"samples": 3, "rmse": 0.5}


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"identity": 1}'])
def test_a_damaged_receipt_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "receipt.json").write_text(text)
    with pytest.raises(RecordError, match="must be a receipt written by"):
        read_receipt(tmp_path / "receipt.json")


def test_a_missing_receipt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="must be a readable receipt"):
        read_receipt(tmp_path / "receipt.json")
