"""Cost of each exit of a ResNet, before anything is trained.

Run: python examples/cost_of_exits.py
"""

from sae import cost_of
from sae.config.backbones import ResnetConfig
from sae.config.methods import SaeConfig


def main() -> None:
    """Print FLOPs and parameters of a network with two inputs that use its last K exits, for every K."""
    for exits in range(1, 5):
        cost = cost_of(SaeConfig(inputs=2, exits=exits), ResnetConfig(), shape=(3, 64, 64), num_outputs=200)
        print(f"2 inputs, last {exits} exits: {cost.flops:>13,} FLOPs, {cost.params:>10,} parameters")


if __name__ == "__main__":
    main()
