"""Table of mean ± std over seeds from evaluations by `sae evaluate --shift --calibrate --json`.

Run: python -m benchmarks.compare_methods FOLDER, where FOLDER holds NAME-SEED.json for every
method and seed, and runs/NAME-SEED for the training time.
"""

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

METRICS = ("f1", "nll", "ece", "cc_ece_uniform", "cc_ece")


def row_of(name: str, evaluations: list[dict[str, Any]], seconds: list[float]) -> list[str]:
    """Return the row of one method: clean, calibrated and shifted metrics, then cost."""
    chosen = [next(at for at in item["by_exits"] if at["exits"] == item["exits"]) for item in evaluations]
    return [
        name,
        *(_spread([item["metrics"][key] for item in evaluations]) for key in METRICS),
        *(_spread([item["calibrated"][key] for item in evaluations]) for key in ("nll", "ece")),
        *(_spread([item["shift"]["metrics"][key] for item in evaluations]) for key in METRICS),
        _spread([item["flops"] / 1e6 for item in chosen]),
        _spread([item["params"] / 1e6 for item in chosen]),
        f"{statistics.mean(seconds):.0f}",
    ]


def _spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}"


def main(folder: Path) -> None:
    """Print a Markdown table."""
    groups: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.glob("*-[0-9]*.json")):
        groups[path.stem.rpartition("-")[0]].append(path)
    columns = ["method", *METRICS, "nll, scaled", "ece, scaled", *(f"{key}, shifted" for key in METRICS)]
    columns += ["MFLOPs", "M params", "train s"]
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for name, paths in groups.items():
        status = [json.loads((folder / "runs" / path.stem / "status.json").read_text()) for path in paths]
        evaluations = [json.loads(path.read_text()) for path in paths]
        print("| " + " | ".join(row_of(name, evaluations, [item["seconds"] for item in status])) + " |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
