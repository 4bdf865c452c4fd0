"""Folding: at prediction all N inputs are one sample, so a stem that takes it once can say the same.

A first layer over N joined samples is W·[x; x; …; x] + b = (W_1 + … + W_N)·x + b: a layer over
one sample whose weight is the sum over inputs. It costs what a single network's does.
"""

import copy
from typing import TypeVar

import torch
from torch import Tensor, nn

from sae.backbones.surgery import replaced, weight_layers

Layer = TypeVar("Layer", bound=nn.Linear | nn.Conv2d)


def folded_stem(stem: nn.Module, num_inputs: int) -> nn.Module:
    """A copy of a stem over N joined samples that takes one sample and gives what N equal ones would.

    Its first Linear or convolution is the one that was widened. A LayerNorm in front of it is
    widened too: over N equal samples mean and variance are those of one, so that it is narrowed
    with its own eps, and its scale and shift, which differ between inputs, go into the layer.

    Example:
        >>> stem, x = nn.Sequential(nn.Linear(6, 4)), torch.randn(5, 2)
        >>> torch.allclose(folded_stem(stem, 3)(x), stem(x.repeat(1, 3)), atol=1e-6)
        True
    """
    if num_inputs == 1:
        return copy.deepcopy(stem)
    name = weight_layers(stem)[0]
    layer, norm_name = stem.get_submodule(name), _norm_before(stem, name)
    if norm_name is None:
        assert isinstance(layer, nn.Linear | nn.Conv2d), f"a first layer must be Linear or Conv2d, however: {layer}"
        return replaced(stem, {name: lambda _: _with_summed_weight(layer, layer.weight.double(), num_inputs)})
    norm = stem.get_submodule(norm_name)
    assert isinstance(layer, nn.Linear), f"behind a LayerNorm must be a Linear, however: {layer}"
    assert isinstance(norm, nn.LayerNorm)
    weight = layer.weight.double() * norm.weight.double()  # (out, input·in)
    linear = _with_summed_weight(layer, weight, num_inputs)
    with torch.no_grad():
        linear.bias.copy_(layer.bias.double() + layer.weight.double() @ norm.bias.double())
    narrow = nn.LayerNorm(linear.in_features, norm.eps).to(layer.weight)  # scale 1, shift 0
    return replaced(stem, {norm_name: lambda _: narrow, name: lambda _: linear})


def _with_summed_weight(layer: Layer, weight: Tensor, num_inputs: int) -> Layer:
    """The layer over one sample; the slices are summed in float64, so that none of their digits is lost."""
    summed = weight.unflatten(1, (num_inputs, -1)).sum(dim=1).to(layer.weight.dtype)
    assert isinstance(layer, nn.Linear) or layer.groups == 1, "a convolution in groups keeps its inputs apart"
    narrow = copy.deepcopy(layer)
    narrow.weight = nn.Parameter(summed.detach())
    if isinstance(narrow, nn.Linear):
        narrow.in_features = summed.shape[1]
    else:
        narrow.in_channels = summed.shape[1]
    return narrow


def _norm_before(stem: nn.Module, name: str) -> str | None:
    """The name of the LayerNorm in front of the first layer, if there is one; nothing else there may have weights."""
    before = []
    for other, module in stem.named_modules():
        if other == name:
            break
        if not list(module.children()) and list(module.parameters()):
            before.append(other)
    norms = [other for other in before if isinstance(stem.get_submodule(other), nn.LayerNorm)]
    assert before == norms[:1], f"in front of a first layer may be one LayerNorm, however: {before}"
    return norms[0] if norms else None
