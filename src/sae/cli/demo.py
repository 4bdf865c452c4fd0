"""`sae demo`: the main job on embedded data."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sae.record import RunRecord

SEEDS = (0, 1, 2)
COLUMNS = ("accuracy", "f1", "nll", "ece", "cc_ece")
METHODS: dict[str, dict[str, Any]] = {
    "standard": {"method": {"name": "standard"}, "backbone": {"name": "fc"}},
    "SAE, 2 inputs, 3 exits": {
        "method": {"name": "sae", "inputs": 2, "exits": 3},
        "backbone": {"name": "fc"},
    },
}


def demo(
    out: Annotated[Path, typer.Option(help="folder for the runs")] = Path("runs/demo"),
    force: Annotated[bool, typer.Option(help="train again, whatever the folder holds")] = False,
) -> None:
    """Train a standard network and SAE on digits, three seeds each, and compare them."""
    from sae.cli.output import print_message, print_table
    from sae.config import resolve
    from sae.data.catalogue import suggestions
    from sae.training.progress import Bar
    from sae.training.run import train

    rows = []
    for name, layer in METHODS.items():
        folder = out / layer["method"]["name"]
        configs = [resolve(suggestions("digits"), layer, {"seed": seed}) for seed in SEEDS]
        records = [train(c, folder / f"seed-{c.seed}", force=force, display=Bar()) for c in configs]
        rows.append([name, *summarise(records)])
    columns = ["method", *COLUMNS, "FLOPs", "params", "seconds"]
    print_table(f"digits, test split, mean ± std over {len(SEEDS)} seeds", columns, rows)
    print_message(f"the runs are in {out}; look at one with: sae evaluate {out}/sae/seed-0")


def summarise(records: Sequence["RunRecord"]) -> list[str]:
    """Mean ± std of each column over runs that differ in their seed."""
    import numpy as np

    reports = [record.report("test") for record in records]
    chosen = [next(item for item in r["by_exits"] if item["exits"] == r["exits"]) for r in reports]
    metrics = [[item["metrics"][key] for item in chosen] for key in COLUMNS]
    costs = [[item[key] for item in chosen] for key in ("flops", "params")]
    seconds = [(record.status or {})["seconds"] for record in records]
    return [
        *(f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}" for values in metrics),
        *(f"{np.mean(values):,.0f}" for values in costs),
        f"{np.mean(seconds):.1f}",
    ]
