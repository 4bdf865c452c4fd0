"""Two fronts of one study, chosen by clean and by corrupted validation images, each trained again on other seeds.

    sae search --config docs/reproduction/fronts-pneumonia.yaml --workers 1 --out studies/fronts
    python -m benchmarks.fronts studies/fronts    # store the results, and print the tables of docs/reproduction.md
    python -m benchmarks.fronts                   # print the tables from the stored results

Test images influenced neither choice.
"""

import argparse
import json
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from sae.analysis.selection import select
from sae.core.objectives import SHIFTED
from sae.records.evaluation import Part
from sae.records.study import MeanAndStd, StudyRecord

STORED = Path(__file__).parents[1] / "docs" / "reproduction" / "fronts.json"
Name = Literal["clean", "shifted"]
TITLES: dict[Name, str] = {
    "clean": "chosen by clean validation images",
    "shifted": "chosen by corrupted validation images",
}
METRICS = {"f1": "F1", "nll": "NLL", "cc_ece": "CC-ECE"}
SEARCHED = ("nll", "cc_ece")


class Member(Part):
    """A configuration of a front: its validation values, and its results on other seeds if it was trained again."""

    trial: str
    settings: str
    flops: float
    val: dict[str, float]
    is_pick: bool
    test: dict[str, MeanAndStd] | None
    shift: dict[str, MeanAndStd] | None


Results = dict[Name, list[Member]]
FILE = TypeAdapter(Results)


def members_of(record: StudyRecord, *, shift: bool) -> list[Member]:
    """Return one front of a study, in the order of its first objective.

    A configuration was trained again if either front chose it for that; the runs are the same.
    """
    selection = select(record, shift=shift)
    pick, confirmed = selection.pick().candidate, record.read_confirmed()
    assert confirmed is not None, "the study must have been confirmed"
    both = (*confirmed.front, *(confirmed.shifted or ()))
    again = {(item.trial, item.eval_exits): item for item in both}
    members = []
    for item in selection.front:
        exits = f", K′={item.eval_exits}" if item.config.method.has_exits else ""
        found = again.get((item.label, item.eval_exits))
        members.append(
            Member(
                trial=f"{item.label}{exits}",
                settings=item.config.summary,
                flops=item.values["flops"],
                val={key: item.values[f"{key}{SHIFTED if shift else ''}"] for key in SEARCHED},
                is_pick=item is pick,
                test=found and {key: found.test[key] for key in METRICS},
                shift=found and found.shift and {key: found.shift[key] for key in METRICS},
            )
        )
    return members


def table(name: Name, members: list[Member]) -> str:
    """Return one front as a Markdown table: its validation values, and results on other seeds, clean and shifted."""
    heads = [
        TITLES[name],
        "settings",
        "MFLOPs",
        *(f"{METRICS[key]}, validation{', corrupted' if name == 'shifted' else ''}" for key in SEARCHED),
        *(f"{label}, test" for label in METRICS.values()),
        *(f"{label}, corrupted test" for label in METRICS.values()),
    ]
    lines = [heads, ["---"] * len(heads), *map(_cells, members)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(item: Member) -> list[str]:
    return [
        f"**{item.trial}**, the pick" if item.is_pick else item.trial,
        item.settings,
        f"{item.flops / 1e6:.3f}",
        *(f"{item.val[key]:.3f}" for key in SEARCHED),
        *(_cell(item.test, key) for key in METRICS),
        *(_cell(item.shift, key) for key in METRICS),
    ]


def _cell(found: dict[str, MeanAndStd] | None, key: str) -> str:
    """Format a mean ± standard deviation; a dash if it was not trained again."""
    return "–" if found is None else f"{found[key].mean:.3f} ± {found[key].std or 0:.3f}"


def read_results(stored: Path) -> Results:
    """Return the stored results."""
    return FILE.validate_json(stored.read_bytes())


def main() -> None:
    """Store the fronts of a study, if one is given, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?", type=Path)
    given = parser.parse_args()
    if given.study is not None:
        record = StudyRecord.open(given.study)
        found: Results = {"clean": members_of(record, shift=False), "shifted": members_of(record, shift=True)}
        STORED.write_text(json.dumps(FILE.dump_python(found), indent=1) + "\n", encoding="utf-8")
    for name, members in read_results(STORED).items():
        print(table(name, members), end="\n\n")


if __name__ == "__main__":
    main()
