"""Surgery on networks: copies with replaced layers, and BatchNorm fused into the layers before it."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TypeVar

from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from sae.backbones.base import copy_of
from sae.backbones.dry_run import dry_run
from sae.core.task import Shape

Network = TypeVar("Network", bound=nn.Module)
WeightLayer = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def weight_layers(network: nn.Module) -> list[str]:
    """Return the names of all Linear layers and convolutions that can be replaced, nested ones included, first to last.

    A layer marked `is_fixed` cannot be replaced: its parent reads its weight without calling it, or its input does not
    hold one row per sample.
    """
    return [
        name
        for name, module in network.named_modules()
        if isinstance(module, WeightLayer) and not getattr(module, "is_fixed", False)
    ]


def replaced(network: Network, replacements: Mapping[str, Callable[[nn.Module], nn.Module]]) -> Network:
    """Return a copy of the network in which each named module is replaced by a function of it.

    The modules are collected before any is replaced, so that modules inside a replacement are
    not replaced again.

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
    copied = copy_of(network)
    chosen = {name: copied.get_submodule(name) for name in replacements}
    for name, module in chosen.items():
        copied.set_submodule(name, replacements[name](module))
    return copied


def fuse_batch_norms(network: nn.Module, shape: Shape) -> None:
    """Fuse each BatchNorm right behind a Linear or convolution into that layer, in place.

    The export to ONNX does the same; this is for counting the cost of the exported network. A
    BatchNorm behind anything else, such as the rank-1 factors of BatchEnsemble, stays in both.

    Args:
        network: A network in evaluation mode.
        shape: The shape of one sample; a dry run finds the layer in front of each BatchNorm.
    """
    for norm_name, layer_name in _layers_before_batch_norms(network, shape).items():
        layer, norm = network.get_submodule(layer_name), network.get_submodule(norm_name)
        assert isinstance(layer, WeightLayer)
        assert isinstance(norm, BATCH_NORMS)
        fused = fuse_linear_bn_eval(layer, norm) if isinstance(layer, nn.Linear) else fuse_conv_bn_eval(layer, norm)
        network.set_submodule(layer_name, fused.requires_grad_())  # so that a new bias is counted too
        network.set_submodule(norm_name, nn.Identity())


def _layers_before_batch_norms(network: nn.Module, shape: Shape) -> dict[str, str]:
    """Map each BatchNorm whose input is the output of a Linear or convolution to the name of that layer."""
    produced: list[tuple[Tensor, str]] = []  # keeps the tensors alive, so that no two share an identity
    found: dict[str, str] = {}

    def note_output(name: str) -> Callable[..., None]:
        return lambda _module, _inputs, output: produced.append((output, name))

    def note_input(name: str) -> Callable[..., None]:
        def note(_module: nn.Module, inputs: tuple[Tensor]) -> None:
            before = [layer for output, layer in produced if output is inputs[0]]
            if before:
                found[name] = before[0]

        return note

    norms = {name: module for name, module in network.named_modules() if isinstance(module, BATCH_NORMS)}
    if not norms:
        return {}
    with ExitStack() as hooks:
        for name in weight_layers(network):
            hooks.enter_context(network.get_submodule(name).register_forward_hook(note_output(name)))
        for name, norm in norms.items():
            hooks.enter_context(norm.register_forward_pre_hook(note_input(name)))
        dry_run(network, shape)
    return found
