"""How much worse than the best is a pick, if it is chosen by one seed or by means over new seeds?

    python -m benchmarks.winners_curse --out runs/winners_curse    # trains four small studies: half an hour; stored
    python -m benchmarks.winners_curse --write                     # the stored numbers into docs/benchmarks.md

Regret is the true value of the chosen configuration minus that of the best; both seeds and choices are averaged over.

*Simulated*: configurations whose true losses have a standard deviation of 1 are searched with one seed each, whose
noise is varied. The best few by that seed are trained on new seeds.

*Measured*: configurations of a study that were trained on eight new seeds. Some seeds choose by validation NLL; the
truth is the mean test NLL of the others; every division of the seeds is averaged over.
"""

import argparse
import json
from itertools import combinations
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from benchmarks.docs_tables import write_tables
from sae.analysis.selection import select
from sae.cli import app
from sae.records.study import StudyRecord

STORED = Path(__file__).with_suffix(".json")
DRAWS, CONFIRMED = 20_000, 6
TRIALS, NOISES, SEEDS = (25, 100, 400), (0.25, 0.5, 1.0, 2.0), (2, 4)
NEW_SEEDS = 8
COMMON = f"--method sae,standard --trials 20 --workers 1 --confirm {NEW_SEEDS} --confirm-most 6 --confirm-each 2"
STUDIES = {
    "digits, FC": "--data digits --backbone fc --epochs 10",
    "digits, VGG": "--data digits --backbone vgg --epochs 5",
    "PneumoniaMNIST, FC": "--data pneumoniamnist --backbone fc --epochs 5",
    "diabetes, FC": "--data diabetes --backbone fc --epochs 20",
}
Row = dict[str, float | int | str]


def simulated(trials: int, noise: float, seeds: int) -> Row:
    """Return the mean regret of both choices, in standard deviations of the true losses."""
    rng = np.random.default_rng((trials, round(100 * noise), seeds))
    regrets = np.zeros(2)
    for _ in range(DRAWS // 1000):
        truth = rng.standard_normal((1000, trials))
        searched = truth + noise * rng.standard_normal(truth.shape)
        kept = np.argsort(searched, axis=1)[:, :CONFIRMED]
        own = np.take_along_axis(truth, kept, axis=1)
        means = own + noise / np.sqrt(seeds) * rng.standard_normal(own.shape)
        best = truth.min(axis=1)
        by_means = np.take_along_axis(own, means.argmin(axis=1)[:, None], axis=1)[:, 0]
        regrets += [(own[:, 0] - best).mean(), (by_means - best).mean()]
    one, new = 1000 * regrets / DRAWS
    return {"trials": trials, "noise": noise, "seeds": seeds, "one": float(one), "new": float(new)}


def search(name: str, flags: str, out: Path) -> StudyRecord:
    """Search and confirm, unless that is done."""
    folder = out / name.replace(", ", "-").lower()
    result = CliRunner().invoke(app, ["search", *flags.split(), *COMMON.split(), "--out", str(folder)])
    assert result.exit_code == 0, result.output
    return StudyRecord.open(folder)


def measured(name: str, record: StudyRecord, seeds: int) -> Row:
    """Return the mean regret of both choices in the test NLL of a study."""
    again = select(record).again
    found = [[run.evaluation for run in item.again if run.evaluation is not None] for item in again]
    val, test = (
        np.array(
            [
                [getattr(each, split).at(item.eval_exits).metrics["nll"] for each in own]
                for item, own in zip(again, found, strict=True)
            ]
        )
        for split in ("val", "test")
    )
    trial = [item.run.evaluation.val.at(item.eval_exits).metrics["nll"] for item in again if item.run.evaluation]
    first, regrets = int(np.argmin(trial)), []
    for chosen in combinations(range(NEW_SEEDS), seeds):
        others = [seed for seed in range(NEW_SEEDS) if seed not in chosen]
        truth = test[:, others].mean(axis=1)
        best = int(val[:, chosen].mean(axis=1).argmin())
        regrets.append([truth[first] - truth.min(), truth[best] - truth.min()])
    one, new = np.mean(regrets, axis=0)
    shown = {"one": float(one), "new": float(new), "flattered": float(val[first].mean() - trial[first])}
    return {"study": name, "networks": len(again), "seeds": seeds, **shown}


def tables() -> dict[str, str]:
    """Return both tables."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    cells = {(row["trials"], row["noise"], row["seeds"]): row for row in stored["simulated"]}
    head = ["trials", "noise of a seed", "by one seed", *(f"by {seeds} new seeds" for seeds in SEEDS)]
    simulation = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for trials in TRIALS:
        for noise in NOISES:
            rows = [cells[trials, noise, seeds] for seeds in SEEDS]
            texts = [str(trials), f"{noise:g}", f"{rows[0]['one']:.2f}", *(f"{row['new']:.2f}" for row in rows)]
            simulation.append(f"| {' | '.join(texts)} |")
    head = ["study", "networks", "flattered by", *(f"by one seed → by {seeds} new" for seeds in SEEDS)]
    studies = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name in STUDIES:
        rows = [row for row in stored["measured"] if row["study"] == name]
        numbers = [f"{row['one']:.4f} → {row['new']:.4f}" for row in rows]
        texts = [name, str(rows[0]["networks"]), f"{rows[0]['flattered']:+.4f}", *numbers]
        studies.append(f"| {' | '.join(texts)} |")
    return {"curse-simulated": "\n".join(simulation), "curse-measured": "\n".join(studies)}


def main() -> None:
    """Simulate and measure, or print what is stored."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/winners_curse"))
    parser.add_argument("--write", action="store_true", help="only put the stored numbers into the docs")
    given = parser.parse_args()
    if not given.write:
        simulation = [simulated(*cell) for cell in ((t, n, s) for t in TRIALS for n in NOISES for s in SEEDS)]
        records = {name: search(name, flags, given.out) for name, flags in STUDIES.items()}
        studies = [measured(name, record, seeds) for name, record in records.items() for seeds in SEEDS]
        STORED.write_text(json.dumps({"simulated": simulation, "measured": studies}, indent=1) + "\n", encoding="utf-8")
    write_tables("benchmarks.md", tables())


if __name__ == "__main__":
    main()
