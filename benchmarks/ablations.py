"""The paper's ablations, each compared with the same run without it, on three seeds.

    SAE_DATA_ROOT=… python -m benchmarks.ablations            # train what is not stored yet
    python -m benchmarks.ablations --table                    # the tables of docs/reproduction.md

The base is docs/reproduction/pneumonia-sae-2x3.yaml with fewer epochs. The ablation of pooling needs a ViT; its base is
a small one on PneumoniaMNIST and on RetinaMNIST, the paper's set for it. The results are in
docs/reproduction/ablations.json.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import mean, stdev

import torch

from sae.analysis.statistics import Sample, welch_interval
from sae.config.run import RunConfig
from sae.config.settings import Layer, merge, read_yaml
from sae.data.catalogue import resolve
from sae.presets import read_ablation
from sae.training.run import train

REPRODUCTION = Path(__file__).parent.parent / "docs" / "reproduction"
STORED = REPRODUCTION / "ablations.json"
SEEDS = (0, 1, 2)
EPOCHS = {"pneumoniamnist": 15, "pneumoniamnist-vit": 5, "retinamnist": 3}
KEPT = ("nll", "f1", "accuracy", "ece", "cc_ece", "mse")
SIGNIFICANT = 0.05

Measured = dict[str, float]
Results = dict[str, list[Measured]]
"""Test metrics and costs, by configuration and seed."""

SMALL_VIT: Layer = {
    "backbone": {"name": "vit", "width": 1, "depth": 2},
    "method": {"name": "sae", "inputs": 1, "exits": 2},
}
BASES: dict[str, Layer] = {
    "pneumoniamnist": merge(
        read_yaml(REPRODUCTION / "pneumonia-sae-2x3.yaml"), {"train": {"epochs": EPOCHS["pneumoniamnist"]}}
    ),
    "pneumoniamnist-vit": merge(
        SMALL_VIT, {"data": "pneumoniamnist", "train": {"epochs": EPOCHS["pneumoniamnist-vit"]}}
    ),
    "retinamnist": merge(SMALL_VIT, {"data": "retinamnist", "train": {"epochs": EPOCHS["retinamnist"]}}),
}
TITLES = {
    "base": "SAE as in the paper",
    "shared_head": "one head for all exits",
    "fixed_exits": "fixed uniform exit weights",
    "scaled_data_fit": "\\|D\\|/B before the data term",
    "constant_schedules": "constant T, α and i",
    "class_token": "class token instead of the mean",
}
ROWS = {
    "pneumoniamnist": ("base", "shared_head", "fixed_exits", "scaled_data_fit", "constant_schedules"),
    "pneumoniamnist-vit": ("base", "class_token"),
    "retinamnist": ("base", "class_token"),
}
CLASSIFICATION = {"NLL": "nll", "F1": "f1", "accuracy": "accuracy", "CC-ECE": "cc_ece", "ECE": "ece"}
COLUMNS = {
    "pneumoniamnist": CLASSIFICATION,
    "pneumoniamnist-vit": CLASSIFICATION,
    "retinamnist": {"NLL": "nll", "MSE": "mse"},
}


def settings_of(data: str, name: str, seed: int) -> RunConfig:
    """Return the settings of a row of a table."""
    return resolve(BASES[data], {} if name == "base" else read_ablation(name), {"seed": seed})


def measure(config: RunConfig) -> Measured:
    """Train a run in a folder of its own; return its numbers on the test split and its cost."""
    with tempfile.TemporaryDirectory() as folder:
        reading = train(config, Path(folder) / "run").read_evaluation().test.chosen
    metrics = {key: reading.metrics[key] for key in KEPT if key in reading.metrics}
    return {**metrics, "flops": reading.flops, "params": reading.params}


def measure_rest(stored: Path, configs: Mapping[str, list[RunConfig]]) -> None:
    """Measure the seeds that are not stored yet, and store each result at once."""
    results = read_results(stored)
    for name, seeds in configs.items():
        found = results.setdefault(name, [])
        for config in seeds[len(found) :]:
            found.append(measure(config))
            stored.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def read_results(stored: Path) -> Results:
    """Return the stored results."""
    results: Results = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {}
    return results


def cell(values: list[float], scale: float = 1.0) -> str:
    """Return mean ± standard deviation."""
    return f"{mean(values) / scale:.3f} ± {stdev(values) / scale:.3f}"


def is_different(values: list[float], base: list[float]) -> bool:
    """Return whether Welch's t-test finds a significant difference (p < 0.05)."""
    one, other = (Sample(mean(each), stdev(each), len(each)) for each in (values, base))
    return welch_interval(one, other).p < SIGNIFICANT


def table(data: str, results: Results) -> str:
    """Return the Markdown table of one data set; numbers that differ significantly from the base are bold."""
    columns = COLUMNS[data]
    lines = [
        f"| {data}, {EPOCHS[data]} epochs | {' | '.join(columns)} | MFLOPs | beyond noise |",
        "|---" * (len(columns) + 3) + "|",
    ]
    base = results[f"{data}/base"]
    for name in ROWS[data]:
        seeds, cells, found = results[f"{data}/{name}"], [], []
        for title, key in columns.items():
            values = [each[key] for each in seeds]
            is_beyond = name != "base" and is_different(values, [each[key] for each in base])
            found += [title] if is_beyond else []
            cells.append(f"**{cell(values)}**" if is_beyond else cell(values))
        cells.append(cell([each["flops"] for each in seeds], 1e6))
        verdict = "" if name == "base" else (", ".join(found) or "nothing")
        lines.append(f"| {TITLES[name]} | {' | '.join(cells)} | {verdict} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", default=list(ROWS))
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if not given.table:
        torch.set_num_threads(1)
        for data in given.data:
            measure_rest(
                STORED, {f"{data}/{name}": [settings_of(data, name, seed) for seed in SEEDS] for name in ROWS[data]}
            )
    for data in given.data:
        print(table(data, read_results(STORED)), end="\n\n")


if __name__ == "__main__":
    main()
