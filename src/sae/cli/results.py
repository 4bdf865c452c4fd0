"""Results of a search on the terminal: the front, its confirmed configurations, the pick, and its receipt."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sae.analysis.selection import Selection
    from sae.records.receipt import Receipt, ReceiptRow
    from sae.records.study import StudyRecord

RECEIPT_METRICS = ("accuracy", "f1", "nll", "ece", "cc_ece", "brier", "mse", "coverage_90")
"""Metrics of a receipt that come first."""
FILE_COST = {"file, bytes": "bytes"}


def print_results(out: Path, *, json: bool, more: Mapping[str, object] | None = None) -> None:
    """Print the front, its confirmed configurations and the pick; `more` is added to the JSON."""
    from sae.analysis.selection import select
    from sae.cli.output import print_json
    from sae.cli.study import describe, print_front, print_pick
    from sae.records.study import StudyRecord

    record = StudyRecord.open(out)
    selection = select(record)
    picked = selection.pick()
    if json:
        confirmed = record.read_confirmed()
        found = confirmed.model_dump(mode="json") if confirmed else None
        answer = {"pick": describe(picked), "confirmed": found, **(more or {})}
        print_json({"study": str(out), **selection.describe(), **answer})
        return
    print_front(out, selection, record.config.task)
    print_confirmed(record, selection)
    print_pick(picked)


def print_confirmed(record: "StudyRecord", selection: "Selection") -> None:
    """Print the results of the front on other seeds, on the test split and under shift; nothing if there are none."""
    from sae.analysis.results import headline, study_results
    from sae.cli.output import print_line, print_table
    from sae.core.wording import count
    from sae.report.tables import confirmed_table

    results, _ = study_results(record)
    if not results:
        return
    present = {(item.label, item.eval_exits) for item in selection.front}
    shown = [item for item in results if (item.label, item.eval_exits) in present]
    if shown:
        metrics = headline(record.config.task, record.data_name)
        print_table(confirmed_table(shown, metrics, record.config.task, title="trained again on other seeds"))
    missing = len(selection.front) - len(shown)
    if missing:
        print_line(f"{count(missing, 'configuration')} of the front not confirmed; --confirm SEEDS confirms all")


def print_receipt(model: str, receipt: "Receipt") -> None:
    """Print quality, cost and time of the pick beside its rivals, whose costs are also multiples of the pick's."""
    from sae.cli.output import COST_ROWS, SHIPPED_COST_ROWS, listed_metrics, print_line, print_table
    from sae.config.methods import rivals
    from sae.core.table import text_table

    rows = receipt.rows
    names = [{"pick": "the pick, shipped", **rivals()}.get(label, label) for label in rows]
    table = [
        ["trial", *(row.trial for row in rows.values())],
        ["settings", *(_settings(row) for row in rows.values())],
        *(
            [f"{key} on test", *(f"{row.metrics[key]:.4f}" for row in rows.values())]
            for key in listed_metrics(RECEIPT_METRICS)
            if all(key in row.metrics for row in rows.values())
        ),
        *(
            [name, *(f"{getattr(row, key):,}{_multiple(receipt, label, key)}" for label, row in rows.items())]
            for name, key in (COST_ROWS | SHIPPED_COST_ROWS | FILE_COST).items()
        ),
        [
            f"ms for {receipt.batch} samples",
            *(f"{row.ms:.3f}{_multiple(receipt, label, 'ms')}" for label, row in rows.items()),
        ],
    ]
    print_table(text_table(f"receipt of {model}, all in onnxruntime", ["", *names], table))
    predicted = receipt.predicted
    result = f"{predicted.right:,} right" if predicted.right is not None else f"error {predicted.rmse:.4g} (rmse)"
    print_line(f"predicted from the file alone: {predicted.samples:,} test samples, {result}")
    print_line(f"time: one thread, interleaved; the pick differs from itself by {abs(receipt.noise - 1):.1%}")


def _settings(row: "ReceiptRow") -> str:
    from sae.config.methods import METHODS

    exits = f" K′={row.eval_exits}" if METHODS.get(row.trial.split("/")[0]).settings.has_exits else ""
    return f"{row.settings}{exits}"


def _multiple(receipt: "Receipt", label: str, key: str) -> str:
    return f" ({getattr(receipt.ratios[label], key):.2f} ×)" if label in receipt.ratios else ""
