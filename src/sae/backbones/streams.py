"""Streams: a backbone whose features run through its stages in groups that never mix.

Every group reads the output of the whole stem, and is then a network of its own. A grouped layer with α times the
features costs α²/G of an ungrouped one, so α = √G keeps the cost of a single network.
"""

from typing import TypeVar

import torch
from torch import Tensor, nn

from sae.backbones.base import Backbone
from sae.backbones.dry_run import DryRun
from sae.backbones.surgery import fuse_batch_norms, replaced, weight_layers
from sae.core.errors import ConfigError
from sae.core.task import Shape

Module = TypeVar("Module", bound=nn.Module)


class BlockLinear(nn.Linear):
    """A Linear with a block-diagonal weight: a group of outputs reads one group of features.

    The weight has the layout of a grouped convolution's, (out, in / groups), and the initial values of a
    Linear over one group.

    Example:
        >>> layer, x = BlockLinear(4, 6, groups=2), torch.randn(3, 4)
        >>> dense = torch.block_diag(layer.weight[:3], layer.weight[3:])
        >>> torch.allclose(layer(x), x @ dense.T + layer.bias, atol=1e-6)
        True
    """

    def __init__(self, in_features: int, out_features: int, groups: int) -> None:
        super().__init__(in_features // groups, out_features)
        self.in_features, self.groups = in_features, groups

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, in) → (batch, out)."""
        features = x.unflatten(1, (self.groups, -1)).transpose(0, 1)  # (group, batch, feature)
        weight = self.weight.unflatten(0, (self.groups, -1)).transpose(1, 2)
        outputs = torch.baddbmm(self.bias.view(self.groups, 1, -1), features, weight)
        return outputs.transpose(0, 1).flatten(1)


def in_streams(backbone: Backbone, num_streams: int) -> Backbone:
    """Return a copy of a backbone whose stages work in groups, with fresh weights; one stream is the backbone itself.

    Its stages must not mix features, except in Linear layers and convolutions.

    Args:
        backbone: The backbone; its stem does not change.
        num_streams: G, the number of groups.
    """
    return streamed(backbone, num_streams, within="stages.")


def streamed(module: Module, num_streams: int, within: str = "") -> Module:
    """Return a copy of a module whose Linear layers and convolutions work in groups; one stream is the module itself.

    Args:
        module: The module to copy.
        num_streams: G.
        within: Only layers whose names start with this are grouped; by default all.
    """
    if num_streams == 1:
        return module
    layers = [name for name in weight_layers(module) if name.startswith(within)]
    return replaced(module, dict.fromkeys(layers, lambda layer: grouped(layer, num_streams)))


def grouped(layer: nn.Module, groups: int) -> nn.Module:
    """Return a new layer of the same sizes in groups."""
    if isinstance(layer, nn.Linear):
        _check_sizes(layer.in_features, layer.out_features, groups)
        return BlockLinear(layer.in_features, layer.out_features, groups)
    assert isinstance(layer, nn.Conv1d | nn.Conv2d), f"{layer} cannot be grouped"
    _check_sizes(layer.in_channels, layer.out_channels, groups)
    return type(layer)(
        layer.in_channels,
        layer.out_channels,
        layer.kernel_size,  # type: ignore[arg-type]
        stride=layer.stride,  # type: ignore[arg-type]
        padding=layer.padding,  # type: ignore[arg-type]
        groups=groups,
        bias=layer.bias is not None,
    )


def fuse_blocks(network: nn.Module, shape: Shape) -> None:
    """Fuse the BatchNorms of a network with block-diagonal layers into its layers; leave any other network alone.

    The export to ONNX does this for all other layers.

    Args:
        network: A network to ship, which is changed.
        shape: The shape of one sample.
    """
    if any(isinstance(module, BlockLinear) for module in network.modules()):
        network.eval()
        with DryRun():
            fuse_batch_norms(network, shape)


def _check_sizes(in_features: int, out_features: int, groups: int) -> None:
    for size in (in_features, out_features):
        if size % groups:
            raise ConfigError(
                f"every layer's features must divide into {groups} streams, got a layer of {in_features} → "
                f"{out_features}: choose another backbone.width or number of streams"
            )
