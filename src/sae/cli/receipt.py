"""The receipt of a shipped pick, in a table."""

from collections.abc import Mapping
from typing import Any

METRICS = ("accuracy", "f1", "nll", "ece", "cc_ece", "brier", "mse", "coverage_90")
FILE_COST = {"file, bytes": "bytes"}


def print_receipt(model: str, receipt: Mapping[str, Any]) -> None:
    """Quality, cost and time of the pick beside the others; costs of others also as multiples of the pick's."""
    from sae.cli.output import COSTS, SHIPPED_COSTS, listed_metrics, print_line, print_table
    from sae.config.methods import rivals

    rows, ratios = receipt["rows"], receipt["ratios"]
    names = [{"pick": "the pick, shipped", **rivals()}.get(label, label) for label in rows]
    table = [
        ["trial", *(row["trial"] for row in rows.values())],
        ["settings", *(_settings(row) for row in rows.values())],
        *(
            [f"{key} on test", *(f"{row['metrics'][key]:.4f}" for row in rows.values())]
            for key in listed_metrics(METRICS)
            if all(key in row["metrics"] for row in rows.values())
        ),
        *(
            [name, *(f"{row[key]:,}{_multiple(ratios, label, key)}" for label, row in rows.items())]
            for name, key in (COSTS | SHIPPED_COSTS | FILE_COST).items()
        ),
        [
            f"ms for {receipt['batch']} samples",
            *(f"{row['ms']:.3f}{_multiple(ratios, label, 'ms')}" for label, row in rows.items()),
        ],
    ]
    print_table(f"receipt of {model}, all in onnxruntime", ["", *names], table)
    predicted = receipt["predicted"]
    said = f"{predicted['right']:,} right" if "right" in predicted else f"error {predicted['rmse']:.4g} (rmse)"
    print_line(f"predicted from the file alone: {predicted['samples']:,} test samples, {said}")
    print_line(f"time: one thread, interleaved; the pick differs from itself by {abs(receipt['noise'] - 1):.1%}")


def _settings(row: Mapping[str, Any]) -> str:
    from sae.config.methods import METHODS

    exits = f" K′={row['eval_exits']}" if METHODS.get(row["trial"].split("/")[0]).settings.has_exits else ""
    return f"{row['settings']}{exits}"


def _multiple(ratios: Mapping[str, Any], label: str, key: str) -> str:
    return f" ({ratios[label][key]:.2f} ×)" if label in ratios else ""
