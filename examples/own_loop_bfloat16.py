"""The same loop in mixed precision: the network computes in bfloat16, the loss and the exit distribution in float32.

Run: python examples/own_loop_bfloat16.py
"""

import torch
from sklearn.datasets import load_digits

import sae


def main(epochs: int = 5) -> None:
    """Train on scikit-learn's digits and print losses and the accuracy on samples that were held out."""
    digits = load_digits()
    x, y = torch.tensor(digits.images).float()[:, None] / 16, torch.tensor(digits.target)
    model = sae.SingleArchitectureEnsemble("fc", sae.Classification(10), inputs=1, exits=3, shape=(1, 8, 8))
    optimizer = torch.optim.AdamW(model.parameter_groups(), lr=1e-3)
    for epoch in range(epochs):
        for batch in torch.randperm(1400).split(64):
            with torch.autocast("cpu", torch.bfloat16):
                loss = model.loss(x[batch], y[batch], progress=epoch / epochs)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f} in {loss.dtype}, θ in {model.exit_weights().dtype}")
    accuracy = (model.predict(x[1400:]).mean.argmax(dim=1) == y[1400:]).float().mean()
    print(f"accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
