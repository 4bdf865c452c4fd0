"""Pruned and folded networks, which hold only the parts that are used at prediction."""

from collections.abc import Sequence
from typing import Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sae.backbones import MemberNetwork, named_parts
from sae.backbones.base import copy_of, features_of
from sae.backbones.streams import fuse_blocks
from sae.backbones.surgery import WeightLayer, replaced, weight_layers
from sae.backbones.uncut import UncutModule
from sae.core.errors import ConfigError
from sae.core.task import Shape
from sae.ensemble.network import ExitHeads, MultiExitNetwork, StreamHeads, join_inputs, repeat_sample

Layer = TypeVar("Layer", bound=WeightLayer)


class Exit(nn.Module):
    """A connector and the head rows of the inputs (with streams: of the slots) that use this exit."""

    def __init__(self, connector: nn.Module, head: "nn.Linear | HeadRows | StreamHeads", num_outputs: int) -> None:
        super().__init__()
        self.connector, self.head, self.num_outputs = connector, head, num_outputs

    def forward(self, features: Tensor) -> Tensor:
        """Map stage features → (batch, member, out), with one member for each input that uses this exit."""
        outputs: Tensor = self.head(self.connector(features))
        members: Tensor = outputs.unflatten(1, (-1, self.num_outputs))
        return members


class HeadRows(nn.Module):
    """Some inputs' rows of a head that several exits share.

    Args:
        head: The common head; its parameters are shared, so that they are counted once.
        places: The positions, among the inputs of the head, of those whose rows are used.
        num_outputs: The rows of one input.
    """

    def __init__(self, head: nn.Linear, places: list[int], num_outputs: int) -> None:
        super().__init__()
        self.weight, self.bias = head.weight, head.bias
        self.places, self.num_outputs = places, num_outputs

    def forward(self, features: Tensor) -> Tensor:
        """Map (batch, feature) → (batch, input·out)."""
        return F.linear(features, self._rows(self.weight), self._rows(self.bias))

    def alone(self) -> nn.Linear:
        """Return a head of its own with these rows, shared with no other exit."""
        own = nn.Linear(self.weight.shape[1], len(self.places) * self.num_outputs, device=self.weight.device)
        own.weight, own.bias = (nn.Parameter(self._rows(values.detach())) for values in (self.weight, self.bias))
        return own

    def _rows(self, values: Tensor) -> Tensor:
        return torch.cat([values[place * self.num_outputs :][: self.num_outputs] for place in self.places])


class PrunedNetwork(MemberNetwork):
    """A network with only the used exits, the used head rows and the stages up to the last used exit.

    Shape: (batch, *sample) → (batch, member, out), members ordered by exit, then input.

    Args:
        network: The network to prune; it does not change.
        exit_weights: θ*, (slot, exit); each pair with a weight above 0 becomes a member of weight θ*/slots. A slot is
            an input, or with several streams a pair (stream, input).
        inputs: The inputs that the stem keeps, which are all by default. At prediction all inputs are the
            same sample, so the stem's weights for the others are added to those for the first.

    Attributes:
        members: The (slot, exit) pair behind each member.
        num_inputs: How many copies of a sample the stem takes: N, or fewer if inputs were left out, or 1 after folding.
    """

    def __init__(self, network: MultiExitNetwork, exit_weights: Tensor, inputs: Sequence[int] | None = None) -> None:
        pairs = (exit_weights.T > 0).nonzero().tolist()  # [exit, input], by exit
        self.members = tuple((i, j) for j, i in pairs)
        super().__init__(torch.stack([exit_weights[i, j] for i, j in self.members]) / exit_weights.sum())
        self.trained_inputs = network.num_inputs
        kept = range(network.num_inputs) if inputs is None else inputs
        self.num_inputs = len(kept)
        used_exits = sorted({exit_index for _, exit_index in self.members})
        stem, stages = network.backbone.up_to(used_exits[-1] + 1)
        self.stem = merged_stem(stem, network.num_inputs, kept)
        self.stages = nn.ModuleList(stages)
        self.uncut_reason = network.backbone.uncut_reason
        self.exits = nn.ModuleDict()
        slots_of = {j: [slot for slot, exit_index in self.members if exit_index == j] for j in used_exits}
        heads = used_heads(network.heads, slots_of, kept)
        for j in used_exits:
            connector = copy_of(network.connectors[j])
            self.exits[str(j)] = Exit(connector, heads[j], network.heads.num_outputs)
        self.train(network.training)

    def member_places(self, depth: int) -> list[tuple[int | None, int]]:
        """Return the input and the exit of each member, counted from 1."""
        del depth
        return [(slot % self.trained_inputs + 1, j + 1) for slot, j in self.members]

    def forward(self, x: Tensor) -> Tensor:
        """Return the raw outputs of the members."""
        state = self.stem(x if self.num_inputs == 1 else join_inputs(repeat_sample(x, self.num_inputs)))
        outputs = []
        for index, stage in enumerate(self.stages):
            state = stage(state)
            if str(index) in self.exits:
                outputs.append(self.exits[str(index)](features_of(state)))
        return torch.cat(outputs, dim=1)

    def parts(self) -> dict[str, nn.Module]:
        """Return the stem, the stages and the exits."""
        return named_parts(self.stem, self.stages, {int(key) + 1: module for key, module in self.exits.items()})

    def folded(self, shape: Shape) -> Self:
        """Return a copy whose stem takes the sample once instead of N times, with a head of its own at each exit."""
        network = copy_of(self)
        network.stem, network.num_inputs = folded_stem(self.stem, self.num_inputs), 1
        for exit_ in network.exits.values():
            if isinstance(exit_.head, HeadRows):
                exit_.head = exit_.head.alone()
        fuse_blocks(network, shape)
        return network


def used_heads(
    heads: ExitHeads, slots_of: dict[int, list[int]], kept: Sequence[int]
) -> dict[int, nn.Linear | HeadRows | StreamHeads]:
    """Return a head with only the rows in use for each used exit; exits that share a head share its rows.

    Args:
        heads: The heads of the network in training.
        slots_of: The slots that use each used exit.
        kept: All inputs that use any exit.
    """
    if not heads.is_shared:
        return {j: heads.pruned(j, slots) for j, slots in slots_of.items()}
    head, places = heads.linear(0, list(kept)), {i: place for place, i in enumerate(kept)}
    return {j: HeadRows(head, [places[i] for i in inputs], heads.num_outputs) for j, inputs in slots_of.items()}


def active_counts(exit_weights: Tensor) -> tuple[int, ...]:
    """Count the inputs that use each exit: n^j in the paper's cost formulas."""
    return tuple((exit_weights > 0).sum(dim=0).tolist())


def folded_stem(stem: nn.Module, num_inputs: int) -> nn.Module:
    """Return a copy of a stem over N joined samples that takes one sample, for the case that all N are equal.

    Example:
        >>> stem, x = nn.Sequential(nn.Linear(6, 4)), torch.randn(5, 2)
        >>> torch.allclose(folded_stem(stem, 3)(x), stem(x.repeat(1, 3)), atol=1e-6)
        True
    """
    return merged_stem(stem, num_inputs, [0])


def merged_stem(stem: nn.Module, num_inputs: int, kept: Sequence[int]) -> nn.Module:
    """Return a copy of a stem over N joined samples that takes fewer, for the case that all are equal.

    A first layer over N joined samples is W·[x; x; …; x] + b = (W_1 + … + W_N)·x + b: the weights of the
    inputs that are left out are added to those of the first kept input. With one kept input, it is a layer
    over one sample, which costs as much as the stem of a single network.

    The first Linear or convolution is the layer that takes the N samples. A LayerNorm in front of
    it spans them too: the mean and variance of equal samples are those of one, so it becomes a
    LayerNorm over the kept samples with the same eps, and its scale and shift move into the layer.

    Args:
        stem: The stem, which does not change.
        num_inputs: N.
        kept: The inputs that are kept, at least one.
    """
    if len(kept) == num_inputs:
        return copy_of(stem)
    names = [stem.first_layer] if isinstance(stem, UncutModule) else weight_layers(stem)
    if not names:
        raise _cannot_fold("it has no such layer")
    name = names[0]
    layer = stem.get_submodule(name)
    norm_name = None if isinstance(stem, UncutModule) else _norm_before(stem, name)
    assert isinstance(layer, WeightLayer)
    if norm_name is None:
        return replaced(stem, {name: lambda _: _with_merged_weight(layer, layer.weight.double(), num_inputs, kept)})
    norm = stem.get_submodule(norm_name)
    assert isinstance(norm, nn.LayerNorm)
    if not isinstance(layer, nn.Linear):
        raise _cannot_fold(f"its LayerNorm is followed by {layer}")
    weight = layer.weight.double() * norm.weight.double()  # (out, input·in)
    linear = _with_merged_weight(layer, weight, num_inputs, kept)
    with torch.no_grad():
        linear.bias.copy_(layer.bias.double() + layer.weight.double() @ norm.bias.double())
    narrow = nn.LayerNorm(linear.in_features, norm.eps).to(layer.weight)  # scale 1, shift 0
    return replaced(stem, {norm_name: lambda _: narrow, name: lambda _: linear})


def _with_merged_weight(layer: Layer, weight: Tensor, num_inputs: int, kept: Sequence[int]) -> Layer:
    """Return the layer over the kept inputs; weights are summed over the others in float64 to lose no digits."""
    if not isinstance(layer, nn.Linear) and layer.groups != 1:
        raise _cannot_fold(f"its first convolution has {layer.groups} groups")
    by_input = weight.unflatten(1, (num_inputs, -1))
    merged = [kept[0], *(i for i in range(num_inputs) if i not in kept)]
    slices = [by_input[:, merged].sum(dim=1), *(by_input[:, i] for i in kept[1:])]
    summed = torch.cat(slices, dim=1).to(layer.weight.dtype)
    narrow = copy_of(layer)
    narrow.weight = nn.Parameter(summed.detach())
    if isinstance(narrow, nn.Linear):
        narrow.in_features = summed.shape[1]
    else:
        narrow.in_channels = summed.shape[1]
    return narrow


def _norm_before(stem: nn.Module, name: str) -> str | None:
    """Return the name of the LayerNorm in front of the first layer, or None; refuse other layers with weights."""
    before = []
    for other, module in stem.named_modules():
        if other == name:
            break
        if not list(module.children()) and list(module.parameters()):
            before.append(other)
    norms = [other for other in before if isinstance(stem.get_submodule(other), nn.LayerNorm)]
    if before != norms[:1]:
        raise _cannot_fold(f"before its first layer are the layers {', '.join(before)}")
    return norms[0] if norms else None


def _cannot_fold(problem: str) -> ConfigError:
    return ConfigError(
        "the stem of a network with several inputs must begin with a Linear or an ungrouped convolution, or "
        f"with a LayerNorm and a Linear, but {problem}: set method.inputs to 1, or change the stem of the backbone"
    )
