"""Results of a search: the front, its confirmed configurations, and the pick."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sae.analysis.candidates import Candidate

HEADLINES = ("accuracy", "f1", "nll", "cc_ece", "mse")
"""Metrics of confirmed configurations that are shown beside the objectives."""


def print_results(out: Path, *, json: bool, more: Mapping[str, Any] | None = None) -> None:
    """Print the front, its confirmed configurations and the pick; `more` is added to the JSON."""
    from sae.analysis.selection import select
    from sae.cli.output import print_json
    from sae.cli.pareto import print_front
    from sae.cli.pick import describe, print_pick
    from sae.records.study import StudyRecord

    record = StudyRecord.open(out)
    selection = select(record)
    chosen, why = selection.pick()
    confirmed = record.read_json(record.CONFIRMED) if (record.path / record.CONFIRMED).exists() else None
    if json:
        picked = {"pick": describe(chosen, why), "confirmed": confirmed, **(more or {})}
        print_json({"study": str(out), **selection.describe(), **picked})
        return
    print_front(out, selection)
    if confirmed:
        print_confirmed(confirmed, selection.front)
    print_pick(chosen, why)


def print_confirmed(confirmed: Mapping[str, Any], front: Sequence["Candidate"]) -> None:
    """Print the results of the front on other seeds, on the test split and under shift."""
    from sae.cli.output import print_line, print_table
    from sae.config.methods import METHODS

    present = {(item.trial.name, item.eval_exits) for item in front}
    on_front = [item for item in confirmed["front"] if (item["trial"], item["eval_exits"]) in present]
    items = [item for item in on_front if item["seeds"]]
    metrics = dict.fromkeys([*HEADLINES, *confirmed["objectives"]])
    splits = [split for split in ("test", "shift") if items and all(item[split] for item in items)]
    columns = [(split, key) for split in splits for key in metrics if all(key in item[split] for item in items)]
    names = [f"{key} (shift)" if split == "shift" else key for split, key in columns]
    rows = [
        [
            item["trial"],
            item["kind"],
            item["settings"],
            str(item["eval_exits"]) if METHODS.get(item["method"]).settings.has_exits else "-",
            str(item["seeds"]),
            *(show_spread(item[split][key]) for split, key in columns),
            f"{item['costs']['flops']['mean']:,.0f}",
        ]
        for item in items
    ]
    print_table(
        "trained again on other seeds: mean ± std on the test set",
        ["trial", "kind", "settings", "K′", "seeds", *names, "flops"],
        rows,
    )
    if len(items) < len(front):
        print_line(
            f"{len(front) - len(items)} configurations of the front are not confirmed; --confirm SEEDS confirms all"
        )


def show_spread(spread: Mapping[str, float | None]) -> str:
    """Format mean and standard deviation; one seed has no deviation."""
    return f"{spread['mean']:.3f}" + ("" if spread["std"] is None else f" ± {spread['std']:.3f}")
