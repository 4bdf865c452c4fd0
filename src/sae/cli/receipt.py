"""The receipt of a shipped pick on the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sae.records.receipt import Receipt, ReceiptRow

RECEIPT_METRICS = ("accuracy", "f1", "nll", "ece", "cc_ece", "brier", "mse", "coverage_90")
"""Metrics of a receipt that come first."""
FILE_COST = {"file, bytes": "bytes"}


def print_receipt(model: str, receipt: "Receipt", target: str | None = None) -> None:
    """Print quality, cost and time of the pick beside its rivals, whose costs are also multiples of the pick's.

    Args:
        model: The shipped file.
        receipt: The measurements.
        target: The name of what is predicted, as unit of the metrics that have one.
    """
    from sae.analysis.baselines import baselines_text
    from sae.cli.output import COST_ROWS, SHIPPED_COST_ROWS, listed_metrics, metric_name, print_line, print_table
    from sae.config.methods import rivals
    from sae.core.table import text_table

    rows = receipt.rows
    known = rivals()
    names = ["the pick, shipped" if role == "pick" else known.get(role, role) for role in rows]
    table = [
        ["trial", *(row.trial for row in rows.values())],
        ["settings", *(_settings(row) for row in rows.values())],
        *(
            line
            for key in listed_metrics(RECEIPT_METRICS)
            if all(key in row.metrics for row in rows.values())
            for line in _metric_lines(key, metric_name(key, target), list(rows.values()))
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
    if receipt.refit_text:
        print_line(receipt.refit_text)
    predicted = receipt.predicted
    result = (
        f"{predicted.right:,} right"
        if predicted.right is not None
        else f"{metric_name('rmse', target)} {predicted.rmse:.4g}"
    )
    print_line(f"predicted from the file alone: {predicted.samples:,} test samples, {result}")
    if receipt.baselines:
        print_line(baselines_text(receipt))
    print_line(f"time: one thread, interleaved; the pick differs from itself by {abs(receipt.noise - 1):.1%}")


def _metric_lines(key: str, name: str, rows: "Sequence[ReceiptRow]") -> list[list[str]]:
    """Return a metric's mean over new seeds, where there are any, and its value for the very files."""
    from sae.core.table import MISSING, four_digits

    means = [(row.over_seeds or {}).get(key) for row in rows]
    own = [four_digits(row.metrics[key]) for row in rows]
    if not any(means):
        return [[f"{name} on test", *own]]
    texts = [MISSING if one is None else _spread(one.mean, one.std) for one in means]
    return [[f"{name} on test, over new seeds", *texts], [f"{name} on test, this file", *own]]


def _spread(mean: float, std: float | None) -> str:
    from sae.core.table import four_digits

    return four_digits(mean) if std is None else f"{four_digits(mean)} ± {four_digits(std)}"


def _settings(row: "ReceiptRow") -> str:
    from sae.analysis.network_plan import read_at
    from sae.config.methods import METHODS

    if not METHODS.get(row.trial.split("/")[0]).settings.has_exits:
        return row.settings
    return (
        f"{row.settings}, {read_at(row.inputs_at_exit)}"
        if row.inputs_at_exit
        else f"{row.settings} K′={row.eval_exits}"
    )


def _multiple(receipt: "Receipt", label: str, key: str) -> str:
    return f" ({getattr(receipt.ratios[label], key):.2f} ×)" if label in receipt.ratios else ""
