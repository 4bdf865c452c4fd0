"""A small ensemble in one network, trained once and evaluated at every number of exits.

Run: python examples/train_and_read.py
"""

import tempfile
from pathlib import Path

from sae import evaluate, resolve, train


def main(epochs: int = 5) -> None:
    """Train two inputs and three exits on scikit-learn's digits and print the results for every K′."""
    config = resolve(
        {"data": "digits", "backbone": "fc", "train": {"epochs": epochs}},
        {"method": {"name": "sae", "inputs": 2, "exits": 3}},
    )
    with tempfile.TemporaryDirectory() as folder:
        train(config, Path(folder) / "run")
        evaluation = evaluate(Path(folder) / "run", split="test")
    for reading in evaluation.readings:
        accuracy, nll = reading.metrics["accuracy"], reading.metrics["nll"]
        print(f"K′={reading.eval_exits}: accuracy {accuracy:.3f}, NLL {nll:.3f}, {reading.flops:,} FLOPs")


if __name__ == "__main__":
    main()
