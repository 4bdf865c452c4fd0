"""A training loop of your own: scikit-learn's digits as tensors, a plain optimiser of torch, and a file to ship.

Run: python examples/own_loop.py
"""

import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_digits

import sae
from sae.deploy.runtime import ClassPrediction


def main(epochs: int = 10) -> None:
    """Train one input and three exits, predict at every K′, and compare with onnxruntime."""
    digits = load_digits()
    x, y = torch.tensor(digits.images).float()[:, None] / 16, torch.tensor(digits.target)
    train, test = slice(0, 1400), slice(1400, None)

    model = sae.SingleArchitectureEnsemble("fc", sae.Classification(10), inputs=1, exits=3, shape=(1, 8, 8))
    optimizer = torch.optim.AdamW(model.parameter_groups(), lr=1e-3)
    data = torch.utils.data.TensorDataset(x[train], y[train])
    loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)
    steps = epochs * len(loader)
    for epoch in range(epochs):
        for number, (inputs, targets) in enumerate(loader):
            loss = model.loss(inputs, targets, progress=(epoch * len(loader) + number) / steps)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()

    for exits in range(1, 6):
        accuracy = (model.predict(x[test], exits).mean.argmax(dim=1) == y[test]).float().mean()
        flops = sae.measure_cost(model.prune(exits).network, (1, 8, 8)).flops
        print(f"K′={exits}: accuracy {accuracy:.3f}, {flops:,} FLOPs")

    with tempfile.TemporaryDirectory() as folder:
        model.export(Path(folder) / "model.onnx", x[test][:64])
        shipped = sae.load(folder).predict(x[test].numpy())
    assert isinstance(shipped, ClassPrediction)
    same = (torch.from_numpy(shipped.labels) == model.predict(x[test]).mean.argmax(dim=1)).float().mean()
    print(f"onnxruntime predicts the same class for {same:.1%} of the test samples")


if __name__ == "__main__":
    main()
