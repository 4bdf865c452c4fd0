"""The same loop with `torch.compile`, beside the loop without it. Compiling needs a C++ compiler.

Run: python examples/own_loop_compiled.py
"""

import torch
from sklearn.datasets import load_digits

import sae


def train(x: torch.Tensor, y: torch.Tensor, steps: int, *, compiled: bool) -> tuple[list[float], torch.Tensor]:
    """Return the losses of some steps, and predictions after them."""
    backbone = {"name": "fc", "depth": 2}
    model = sae.SingleArchitectureEnsemble(backbone, sae.Classification(10), inputs=1, exits=3, shape=(1, 8, 8))
    if compiled:
        model.compile()  # the network; what is drawn around it stays as it is
    optimizer = torch.optim.SGD(model.parameter_groups(), lr=0.05)
    losses = []
    for step in range(steps):
        loss = model.loss(x, y, progress=step / steps)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model.predict(x).mean


def main(steps: int = 10) -> None:
    """Print the losses of both loops and their largest difference."""
    digits = load_digits()
    x, y = torch.tensor(digits.images[:256]).float()[:, None] / 16, torch.tensor(digits.target[:256])
    (eager, expected), (compiled, found) = (train(x, y, steps, compiled=is_compiled) for is_compiled in (False, True))
    print(f"losses without torch.compile: {eager[0]:.4f} … {eager[-1]:.4f}")
    print(f"losses with torch.compile:    {compiled[0]:.4f} … {compiled[-1]:.4f}")
    largest = max(abs(one - other) for one, other in zip(eager, compiled, strict=True))
    print(f"largest difference: {largest:.1e} of a loss, {(expected - found).abs().max():.1e} of a probability")
    assert max(largest, (expected - found).abs().max().item()) < 1e-4


if __name__ == "__main__":
    main()
