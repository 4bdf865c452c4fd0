"""A cost term in the objective compared with a search over the number of exits, on three seeds.

    SAE_DATA_ROOT=… python -m benchmarks.cost_term            # train what is not stored yet
    python -m benchmarks.cost_term --table                    # the table of docs/reproduction.md

Both start from the base of `benchmarks.ablations`, at width 1 and with fewer epochs. With the cost weight λ
(`method.cost_weight`), K is 1 or all exits; without it, K is each number of exits in turn. The results are in
docs/reproduction/cost_term.json.
"""

import argparse

import torch

from benchmarks.ablations import BASES, REPRODUCTION, SEEDS, Results, cell, measure_rest, read_results
from sae.config.run import RunConfig
from sae.config.settings import merge
from sae.data.catalogue import resolve

STORED = REPRODUCTION / "cost_term.json"
DATA = "pneumoniamnist"
DEPTH, EPOCHS = 5, 8
BASE = merge(BASES[DATA], {"backbone": {"width": 1}, "train": {"epochs": EPOCHS}})
CONFIGURATIONS = [
    *((DEPTH, price) for price in (0.01, 0.1, 1.0)),
    *((exits, 0.0) for exits in range(1, DEPTH + 1)),
    *((1, price) for price in (0.1, 1.0)),
]
"""K and λ, in the order in which they are trained."""


def name_of(exits: int, price: float) -> str:
    """Return the name of a configuration in the stored results."""
    return f"K={exits} λ={price:g}"


def settings_of(exits: int, price: float, seed: int) -> RunConfig:
    """Return the settings of a configuration."""
    return resolve(BASE, {"method": {"exits": exits, "cost_weight": price}, "seed": seed})


def table(results: Results) -> str:
    """Return the Markdown table, by K and λ."""
    lines = [f"| {DATA}, width 1, {EPOCHS} epochs | λ | MFLOPs | NLL | F1 | CC-ECE |", "|---" * 6 + "|"]
    for exits, price in sorted(CONFIGURATIONS):
        seeds = results[name_of(exits, price)]
        flops, *metrics = ([each[key] for each in seeds] for key in ("flops", "nll", "f1", "cc_ece"))
        lines.append(f"| K={exits} | {price:g} | {cell(flops, 1e6)} | {' | '.join(map(cell, metrics))} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    if not parser.parse_args().table:
        torch.set_num_threads(1)
        measure_rest(STORED, {name_of(*each): [settings_of(*each, seed) for seed in SEEDS] for each in CONFIGURATIONS})
    print(table(read_results(STORED)))


if __name__ == "__main__":
    main()
