"""`sae demo`: the main job on embedded data."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sae.cli import options

if TYPE_CHECKING:
    from sae.record import RunRecord

SEEDS = (0, 1, 2)
ROWS = ("accuracy", "f1", "nll", "ece", "cc_ece")
METHODS: dict[str, dict[str, Any]] = {
    "standard": {"name": "standard"},
    "ensemble of 4": {"name": "ensemble", "members": 4},
    "MC dropout, 4 samples": {"name": "mc_dropout", "samples": 4},
    "BatchEnsemble of 4": {"name": "batch_ensemble", "members": 4},
    "SAE, 2 inputs, 3 exits": {"name": "sae", "inputs": 2, "exits": 3},
}


def demo(
    out: Annotated[Path, typer.Option(help="folder for the runs")] = Path("runs/demo"),
    force: Annotated[bool, typer.Option(help="train again, whatever the folder holds")] = False,
    epochs: Annotated[int | None, typer.Option(help="passes over the training data")] = None,
    json: options.Json = False,
) -> None:
    """Train all five methods on digits, three seeds each, and compare them."""
    from sae.cli.output import print_json, print_message
    from sae.config import resolve, suit_method
    from sae.data.catalogue import suggestions
    from sae.training.progress import Bar
    from sae.training.run import train

    summaries = {}
    for name, method in METHODS.items():
        folder, layer = out / method["name"], {"method": method}
        shared = [suit_method(suggestions("digits"), layer), layer, {"train": options.section(epochs=epochs)}]
        configs = [resolve(*shared, {"seed": seed}) for seed in SEEDS]
        records = [train(c, folder / f"seed-{c.seed}", force=force, display=Bar()) for c in configs]
        summaries[name] = summarise(records)
    (print_json if json else print_comparison)(summaries)
    print_message(f"the runs are in {out}; look at one with: sae evaluate {out}/sae/seed-0")


def summarise(records: Sequence["RunRecord"]) -> dict[str, dict[str, float]]:
    """Mean and standard deviation of every number over runs that differ in their seed, at the trained K."""
    import numpy as np

    reports = [record.report("test") for record in records]
    chosen = [next(item for item in r["by_exits"] if item["exits"] == r["exits"]) for r in reports]
    values = {key: [item["metrics"][key] for item in chosen] for key in ROWS}
    values |= {key: [item[key] for item in chosen] for key in ("flops", "params")}
    values["seconds"] = [(record.status or {}).get("seconds", 0.0) for record in records]
    return {key: {"mean": float(np.mean(v)), "std": float(np.std(v, ddof=1))} for key, v in values.items()}


def print_comparison(summaries: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    """A column for each method, a row for each number."""
    from sae.cli.output import print_table

    def cell(key: str, number: Mapping[str, float]) -> str:
        whole = key in ("flops", "params")
        return f"{number['mean']:,.0f}" if whole else f"{number['mean']:.3f} ± {number['std']:.3f}"

    keys = next(iter(summaries.values()))
    rows = [[key, *(cell(key, summary[key]) for summary in summaries.values())] for key in keys]
    print_table(f"digits, test split, mean ± std over {len(SEEDS)} seeds", ["", *summaries], rows)
