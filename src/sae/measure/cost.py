"""The cost of a network per sample, counted on the network itself.

Every operation in the forward pass of one sample is counted by the rules below
(a multiply-accumulate is 1). An operation without a rule is an error, so a cost is never
silently too small.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch._ops import OpOverload, OpOverloadPacket

from sae.backbones import MemberNetwork
from sae.backbones.dry_run import DryRun, dry_run
from sae.backbones.surgery import fuse_batch_norms
from sae.core.errors import CostError
from sae.core.parts import REST
from sae.core.task import Shape

aten = torch.ops.aten
Args = tuple[object, ...]
Rule = Callable[[Args, object], int]
"""The cost of an operation from its arguments and its output."""


@dataclass(frozen=True)
class PartCost:
    """Parameters and multiply-accumulates per sample."""

    params: int
    flops: int


@dataclass(frozen=True)
class Cost(PartCost):
    """The cost of a whole network, and of its parts."""

    by_part: dict[str, PartCost]


def measure_cost(network: nn.Module, shape: Shape) -> Cost:
    """Count one network's cost for one sample of `shape`.

    It counts on torch's `meta` device, which has no numbers and whose operations do not depend on
    the device of the network. The network itself does not change.

    Example:
        >>> measure_cost(nn.Sequential(nn.Linear(8, 4), nn.ReLU()), (8,)).flops
        40
    """
    parts = network.parts() if isinstance(network, MemberNetwork) else dict(network.named_children())
    counter = _Counter()
    with counter.knowing(network, parts):
        dry_run(network, shape, counter)
    own = _own_params(parts)
    by_part = {name: PartCost(own[name], counter.flops.get(name, 0)) for name in parts}
    params = _num_params(network.parameters())
    rest = PartCost(params - sum(cost.params for cost in by_part.values()), counter.flops.get(REST, 0))
    if rest.params or rest.flops:
        by_part[REST] = rest
    return Cost(params, sum(counter.flops.values()), by_part)


def measure_shipped_cost(network: MemberNetwork, shape: Shape) -> Cost:
    """Count the cost of a pruned network as exported: folded, and with BatchNorm fused into layers.

    Never mix it with `measure_cost`, which counts the pruned network as the paper does.
    """
    shipped = network.folded(shape).eval().to("meta")
    with DryRun():
        fuse_batch_norms(shipped, shape)
    return measure_cost(shipped, shape)


def _num_params(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters if parameter.requires_grad)


def _own_params(parts: dict[str, nn.Module]) -> dict[str, int]:
    """Count the parameters of each part; one that several parts share counts with the first."""
    counted: set[int] = set()
    found = {}
    for name, part in parts.items():
        new = [parameter for parameter in part.parameters() if id(parameter) not in counted]
        counted |= {id(parameter) for parameter in new}
        found[name] = _num_params(new)
    return found


class _Counter(DryRun):
    """A counter of the cost of every operation that torch dispatches, by the part that is running."""

    def __init__(self) -> None:
        super().__init__()
        self.flops: dict[str, int] = {}
        self.part = REST
        self.is_free = False

    @contextmanager
    def knowing(self, network: nn.Module, parts: dict[str, nn.Module]) -> Iterator[None]:
        """Know within the context which part is running."""
        with ExitStack() as hooks:
            for name, module in parts.items():
                self._set_within(hooks, module, "part", name, REST)
            for module in network.modules():
                if getattr(module, "is_free_of_cost", False):
                    self._set_within(hooks, module, "is_free", True, False)
            yield

    def _set_within(self, hooks: ExitStack, module: nn.Module, name: str, inside: object, outside: object) -> None:
        """Set an attribute to `inside` while the module runs."""
        hooks.enter_context(module.register_forward_pre_hook(lambda *_: setattr(self, name, inside)))
        hooks.enter_context(module.register_forward_hook(lambda *_: setattr(self, name, outside)))

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Args = (), kwargs: dict[str, object] | None = None
    ) -> object:
        out = super().__torch_dispatch__(func, types, args, kwargs)
        packet = func.overloadpacket
        if func not in FREE and packet not in FREE and not self.is_free:
            if packet not in RULES:
                raise CostError(f"{func} has no cost rule: add one to RULES or FREE of sae.measure.cost")
            self.flops[self.part] = self.flops.get(self.part, 0) + RULES[packet](args, out)
        return out


def _tensor(value: object) -> Tensor:
    """Return an argument or an output as a tensor; of several outputs the first."""
    tensor = value[0] if isinstance(value, tuple) else value
    assert isinstance(tensor, Tensor), f"a cost rule reads tensors, got {type(tensor).__name__}"
    return tensor


def _output(_: Args, out: object) -> int:
    """1·numel(out)."""
    return _tensor(out).numel()


def _input(args: Args, _: object) -> int:
    """1·numel(in)."""
    return _tensor(args[0]).numel()


def _product(args: Args, out: object) -> int:
    """1·numel(out); nothing for a constant factor, the 1/√d of attention, which the paper does not count."""
    return _tensor(out).numel() if isinstance(args[1], Tensor) else 0


def _norm(_: Args, out: object) -> int:
    """2·numel."""
    return 2 * _tensor(out).numel()


def _convolution(args: Args, out: object) -> int:
    """k²·C_in·C_out·H·W, and C_out·H·W with bias; k·C_in·C_out·L over time; a group sees its share of C_in."""
    weight, bias = _tensor(args[1]), args[2]
    per_output = math.prod(weight.shape[1:]) + (0 if bias is None else 1)
    return _tensor(out).numel() * int(per_output)


def _matmul(args: Args, out: object) -> int:
    """in·out for every position."""
    return _tensor(out).numel() * _tensor(args[0]).shape[-1]


def _matmul_with_bias(args: Args, out: object) -> int:
    """in·out + out for every position."""
    return _tensor(out).numel() * (_tensor(args[1]).shape[-1] + 1)


RULES: dict[OpOverloadPacket, Rule] = {
    aten.convolution: _convolution,
    aten.mm: _matmul,
    aten.bmm: _matmul,
    aten.addmm: _matmul_with_bias,
    aten.baddbmm: _matmul_with_bias,
    aten.native_batch_norm: _norm,
    aten.native_layer_norm: _norm,
    aten.relu: _output,
    aten.gelu: _output,
    aten.add: _output,  # a residual add, or the biases of members
    aten.mul: _product,  # a dropout, or the factors of members
    aten.mean: _input,
    aten.max_pool2d_with_indices: _input,
    aten._softmax: _output,
    aten._safe_softmax: _output,
}

FREE = {
    # Views and copies compute nothing.
    *(aten.view, aten._unsafe_view, aten.expand, aten.permute, aten.transpose, aten.t, aten.unsqueeze, aten.squeeze),
    *(aten.select, aten.slice, aten.cat, aten.stack, aten.clone, aten.empty, aten.detach, aten._to_copy),
    aten.repeat,
    # The 1/√d of attention, as `_product` says.
    aten.mul.Scalar,
}
