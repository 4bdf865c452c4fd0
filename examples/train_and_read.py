"""Train a small ensemble in one network, then read it at every number of exits.

Run: python examples/train_and_read.py
"""

import tempfile
from pathlib import Path

from sae import evaluate, resolve, train


def main(epochs: int = 5) -> None:
    """Two inputs, three exits, on scikit-learn's digits."""
    config = resolve(
        {"data": {"name": "digits"}, "backbone": {"name": "fc"}, "train": {"epochs": epochs, "lr": 1e-3}},
        {"method": {"name": "sae", "inputs": 2, "exits": 3}},
    )
    with tempfile.TemporaryDirectory() as folder:
        train(config, Path(folder) / "run")
        report = evaluate(Path(folder) / "run", split="test")
    for item in report["by_exits"]:
        metrics = item["metrics"]
        print(
            f"K′={item['exits']}: accuracy {metrics['accuracy']:.3f}, NLL {metrics['nll']:.3f}, {item['flops']:,} FLOPs"
        )


if __name__ == "__main__":
    main()
