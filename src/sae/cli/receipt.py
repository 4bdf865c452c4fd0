"""The receipt of a shipped pick as a table."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sae.records.receipt import Receipt, ReceiptRow

METRICS = ("accuracy", "f1", "nll", "ece", "cc_ece", "brier", "mse", "coverage_90")
FILE_COST = {"file, bytes": "bytes"}


def print_receipt(model: str, receipt: "Receipt") -> None:
    """Print quality, cost and time of the pick beside its rivals, whose costs are also multiples of the pick's."""
    from sae.cli.output import COSTS, SHIPPED_COSTS, listed_metrics, print_line, print_table
    from sae.config.methods import rivals

    rows = receipt.rows
    names = [{"pick": "the pick, shipped", **rivals()}.get(label, label) for label in rows]
    table = [
        ["trial", *(row.trial for row in rows.values())],
        ["settings", *(_settings(row) for row in rows.values())],
        *(
            [f"{key} on test", *(f"{row.metrics[key]:.4f}" for row in rows.values())]
            for key in listed_metrics(METRICS)
            if all(key in row.metrics for row in rows.values())
        ),
        *(
            [name, *(f"{getattr(row, key):,}{_multiple(receipt, label, key)}" for label, row in rows.items())]
            for name, key in (COSTS | SHIPPED_COSTS | FILE_COST).items()
        ),
        [
            f"ms for {receipt.batch} samples",
            *(f"{row.ms:.3f}{_multiple(receipt, label, 'ms')}" for label, row in rows.items()),
        ],
    ]
    print_table(f"receipt of {model}, all in onnxruntime", ["", *names], table)
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
