"""The command: train, reduce to JSON, print the tables."""

import argparse
import time
from pathlib import Path

import torch

import benchmarks.claims
from benchmarks.claims.results import reduce, tables
from benchmarks.claims.rows import SETS
from benchmarks.docs_tables import write_tables
from sae.config.run import RunConfig
from sae.data.catalogue import resolve
from sae.records.run import RunRecord
from sae.training.predictions import keep_predictions
from sae.training.run import derive, train


def folder(out: Path, name: str, row: str, seed: int) -> Path:
    """Return the folder of one training."""
    return out / name / f"{row}-{seed}"


def config(name: str, row: str, seed: int) -> RunConfig:
    """Return the settings of one training."""
    return resolve(SETS[name].settings, SETS[name].rows[row].settings, {"seed": seed})


def train_row(out: Path, name: str, row: str, seed: int) -> None:
    """Train one configuration with one seed, and keep its predictions, unless that is done."""
    place, started, source = folder(out, name, row, seed), time.process_time(), SETS[name].rows[row].members_of
    if source:
        record = derive(config(name, row, seed), place, folder(out, name, source, seed))
    else:
        record = train(config(name, row, seed), place)
    if not record.has(RunRecord.PREDICTIONS):
        keep_predictions(place)
    chosen = record.read_evaluation().val.chosen
    spent = time.process_time() - started
    print(f"{name} {place.name}: validation NLL {chosen.metrics['nll']:.4f}, {spent:.0f} s", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=benchmarks.claims.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train", help="train what is missing, seed by seed")
    training.add_argument("name", choices=SETS)
    training.add_argument("--seeds", type=int, nargs="+", help="by default all seeds of the set")
    training.add_argument("--rows", nargs="+", help="by default all rows of the set")
    training.add_argument("--out", type=Path, default=Path("runs/claims"))
    reducing = commands.add_parser("reduce", help="store the results of every row that has finished two seeds or more")
    reducing.add_argument("name", choices=SETS)
    reducing.add_argument("--out", type=Path, default=Path("runs/claims"))
    commands.add_parser("write", help="put the tables into docs/reproduction.md")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.command == "reduce":
        reduce(given.out, given.name)
    if given.command != "train":
        write_tables("reproduction.md", tables())
        return
    setting = SETS[given.name]
    for seed in given.seeds or range(setting.seeds):
        for row in given.rows or setting.rows:
            train_row(given.out, given.name, row, seed)


if __name__ == "__main__":
    main()
