"""Recorded runs for the surrogate: random configurations of SAE, trained on digits.

Run: python -m benchmarks.surrogate.collect benchmarks/surrogate/digits.csv --runs 300

The space is the paper's on FC, with widths up to 2. Runs have 8 epochs, in two processes of one
thread each. Configuration number i has a seed of its own, so more runs extend the file. A row
holds the configuration and its results at the trained K: nll and cc_ece on the validation split,
and flops.
"""

import argparse
import csv
import multiprocessing
import tempfile
from pathlib import Path

import numpy as np
from rich.progress import track

from sae.config.run import RunConfig, parse_run
from sae.core.seeds import derive_seed
from sae.training.run import train

INTS = {"inputs": (1, 4), "exits": (1, 5), "width": (1, 2)}
FLOATS = {"repeat_fraction": (0.0, 1.0)}
LOG_FLOATS = {"kl_weight": (1e-5, 1.0), "temperature": (1e-3, 1.0)}
ENDS = ("start", "end")
OBJECTIVES = ("nll", "cc_ece", "flops")
EPOCHS = 8

Params = dict[str, int | float]


def draw(index: int) -> Params:
    """Draw configuration number `index` uniformly from the space, with floats of four digits."""
    rng = np.random.default_rng(derive_seed(0, "surrogate", index))
    params: Params = {name: int(rng.integers(low, high, endpoint=True)) for name, (low, high) in INTS.items()}
    for name, (low, high) in FLOATS.items():
        params |= {f"{name}.{end}": _rounded(rng.uniform(low, high)) for end in ENDS}
    for name, (low, high) in LOG_FLOATS.items():
        params |= {f"{name}.{end}": _rounded(10 ** rng.uniform(np.log10(low), np.log10(high))) for end in ENDS}
    return params


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def config_of(params: Params) -> RunConfig:
    """Return the run config of a configuration."""
    schedules = {name: {end: params[f"{name}.{end}"] for end in ENDS} for name in (*FLOATS, *LOG_FLOATS)}
    return parse_run(
        {"data": {"name": "digits"}, "backbone": {"name": "fc", "width": params["width"]}},
        {"method": {"name": "sae", "inputs": params["inputs"], "exits": params["exits"], **schedules}},
        {"train": {"epochs": EPOCHS}},
    )


def row_of(index: int) -> Params:
    """Draw, train and measure one configuration, and return its row."""
    params = draw(index)
    with tempfile.TemporaryDirectory() as folder:
        reading = train(config_of(params), Path(folder) / "run").read_evaluation().val.chosen
    quality = {key: round(reading.metrics[key], 5) for key in ("nll", "cc_ece")}
    return {**params, **quality, "flops": reading.flops}


def main() -> None:
    """Write the file row by row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--runs", type=int, default=300)
    args = parser.parse_args()
    columns = [*draw(0), *OBJECTIVES]
    with args.out.open("w", newline="") as file, multiprocessing.get_context("spawn").Pool(2) as pool:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        for row in track(pool.imap(row_of, range(args.runs)), total=args.runs):
            writer.writerow(row)
            file.flush()


if __name__ == "__main__":
    main()
