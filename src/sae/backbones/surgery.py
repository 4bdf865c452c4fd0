"""Networks made from other networks: layers are exchanged, never copied into a second class."""

import copy
from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from sae.core.task import Shape

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


def without_batch_norm(network: Network, shape: Shape) -> Network:
    """A copy in which every BatchNorm right behind a Linear or convolution has gone into that layer.

    Exporting to ONNX does the same; this is for counting what is exported. A BatchNorm behind
    anything else, as behind the rank-1 factors of BatchEnsemble, stays in both.

    Args:
        network: In evaluation mode.
        shape: One sample: which layer a BatchNorm is behind shows in a forward pass.
    """
    layer_before = _layers_before_batch_norms(network, shape)
    copied = copy.deepcopy(network)
    for norm_name, layer_name in layer_before.items():
        layer, norm = copied.get_submodule(layer_name), copied.get_submodule(norm_name)
        assert isinstance(layer, WeightLayer)
        assert isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d)
        fused = fuse_linear_bn_eval(layer, norm) if isinstance(layer, nn.Linear) else fuse_conv_bn_eval(layer, norm)
        copied.set_submodule(layer_name, fused.requires_grad_())  # a bias that is new would not be counted else
        copied.set_submodule(norm_name, nn.Identity())
    return copied


def _layers_before_batch_norms(network: nn.Module, shape: Shape) -> dict[str, str]:
    """For each BatchNorm that normalises what a Linear or convolution puts out: the name of that layer."""
    watched = copy.deepcopy(network).to("meta").eval()
    produced: list[tuple[Tensor, str]] = []  # holds the tensors, so that no two share an identity
    found: dict[str, str] = {}

    def note_output(name: str) -> Callable[..., None]:
        return lambda _module, _inputs, output: produced.append((output, name))

    def note_input(name: str) -> Callable[..., None]:
        def note(_module: nn.Module, inputs: tuple[Tensor]) -> None:
            before = [layer for output, layer in produced if output is inputs[0]]
            if before:
                found[name] = before[0]

        return note

    for name, module in watched.named_modules():
        if isinstance(module, WeightLayer):
            module.register_forward_hook(note_output(name))
        elif isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.register_forward_pre_hook(note_input(name))
    with torch.no_grad():
        watched(torch.zeros((1, *shape), device="meta"))
    return found
