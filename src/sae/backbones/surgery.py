"""Networks made from other networks: layers are exchanged, never copied into a second class."""

import copy
from collections.abc import Callable, Mapping
from typing import TypeVar

from torch import nn

Network = TypeVar("Network", bound=nn.Module)
WeightLayer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d


def weight_layers(network: nn.Module) -> list[str]:
    """The names of every Linear and convolution however deep it is nested, first to last."""
    return [name for name, module in network.named_modules() if isinstance(module, WeightLayer)]


def replaced(network: Network, replacements: Mapping[str, Callable[[nn.Module], nn.Module]]) -> Network:
    """A copy of the network in which each named module has given way to what is made of it.

    The modules are collected before anything is replaced, so that what a replacement holds is
    not replaced in its turn.

    Example:
        >>> network = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))
        >>> replaced(network, {"1.0": lambda layer: nn.Sequential(nn.ReLU(), layer)})[1]
        Sequential(
          (0): Sequential(
            (0): ReLU()
            (1): Linear(in_features=2, out_features=2, bias=True)
          )
        )
    """
    copied = copy.deepcopy(network)
    chosen = {name: copied.get_submodule(name) for name in replacements}
    for name, module in chosen.items():
        copied.set_submodule(name, replacements[name](module))
    return copied
