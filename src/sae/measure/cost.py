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
from sae.core.errors import ConfigError, CostError
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
    with counter.tracking(network, parts):
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
    def tracking(self, network: nn.Module, parts: dict[str, nn.Module]) -> Iterator[None]:
        """Track within the context which part is running."""
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
        if not self.is_free:
            flops = rule_of(func)(args, out)
            if flops:
                self.flops[self.part] = self.flops.get(self.part, 0) + flops
        return out


def register_cost(operation: OpOverload | OpOverloadPacket, rule: Rule) -> None:
    """Set the rule that counts the cost of an operation.

    Args:
        operation: The operation that an error named, such as `torch.ops.aten.cumsum`.
        rule: Computes multiply-accumulates from the arguments and the output of one call; a batch holds one sample.

    Example:
        >>> register_cost(torch.ops.aten.cumsum, lambda args, out: args[0].numel())
    """
    if not isinstance(operation, OpOverload | OpOverloadPacket) or not callable(rule):
        raise ConfigError(
            "register_cost takes an operation of torch.ops and a function, such as "
            f"(torch.ops.aten.cumsum, lambda args, out: out.numel()), got {operation!r} and {rule!r}"
        )
    RULES[operation] = rule


def rule_of(operation: OpOverload) -> Rule:
    """Return the rule of an operation; one in place has the rule of its counterpart, `add` for `add_`."""
    packet = operation.overloadpacket
    name = packet.__name__
    other = getattr(aten, name[:-1], None) if name.endswith("_") and not name.startswith("_") else None
    for key in (operation, packet, other):
        if key is not None and key in RULES:
            return RULES[key]
    path = packet._qualified_op_name.replace("::", ".")
    raise CostError(
        f"{operation} has no cost rule: give it one with sae.register_cost(torch.ops.{path}, rule), for example "
        "lambda args, out: out.numel() for one multiply-accumulate per number of its output"
    )


def _tensor(value: object) -> Tensor:
    """Return an argument or an output as a tensor; the first of several outputs."""
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


def _attention(args: Args, _: object) -> int:
    """L·S·(2·d + 1) for each head: d for each query and key, softmax, and d again."""
    query, key = _tensor(args[0]), _tensor(args[1])
    return query.shape[:-1].numel() * key.shape[-2] * (2 * query.shape[-1] + 1)


def _nothing(_args: Args, _out: object) -> int:
    """0: views and copies compute nothing."""
    return 0


RULES: dict[OpOverload | OpOverloadPacket, Rule] = {
    aten.convolution: _convolution,
    aten.mm: _matmul,
    aten.bmm: _matmul,
    aten.addmm: _matmul_with_bias,
    aten.baddbmm: _matmul_with_bias,
    aten.native_batch_norm: _norm,
    aten.native_layer_norm: _norm,
    aten.native_group_norm: _norm,
    aten.add: _output,  # a residual add, or the biases of members
    aten.mul: _product,  # a dropout, or the factors of members
    aten.div: _product,
    # Functions of each number.
    **dict.fromkeys(
        (aten.relu, aten.gelu, aten.silu, aten.sigmoid, aten.tanh, aten.hardswish, aten.hardsigmoid), _output
    ),
    **dict.fromkeys((aten.leaky_relu, aten.hardtanh, aten.elu, aten.mish, aten.softplus, aten._prelu_kernel), _output),
    **dict.fromkeys(
        (aten.sub, aten.neg, aten.abs, aten.exp, aten.log, aten.erf, aten.pow, aten.sqrt, aten.rsqrt), _output
    ),
    **dict.fromkeys(
        (aten.clamp, aten.clamp_min, aten.maximum, aten.minimum, aten.where, aten.rsub, aten.log_sigmoid_forward),
        _output,
    ),
    **dict.fromkeys((aten._softmax, aten._safe_softmax, aten._log_softmax), _output),
    **dict.fromkeys((aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge, aten.logical_not), _output),
    **dict.fromkeys((aten.sin, aten.cos, aten.reciprocal, aten.square, aten.addcmul), _output),
    **dict.fromkeys((aten.upsample_nearest2d, aten.upsample_bilinear2d), _output),
    # Operations that read each number once.
    **dict.fromkeys(
        (aten.mean, aten.sum, aten.amax, aten.amin, aten.var, aten.var_mean, aten.linalg_vector_norm), _input
    ),
    **dict.fromkeys(
        (aten.max_pool2d_with_indices, aten.max_pool3d_with_indices, aten.avg_pool2d, aten.avg_pool3d), _input
    ),
    **dict.fromkeys(
        (aten.avg_pool1d, aten._adaptive_avg_pool2d, aten._adaptive_avg_pool3d, aten.adaptive_max_pool2d), _input
    ),
    **dict.fromkeys((aten.adaptive_max_pool3d,), _input),
    # Attention in one operation.
    **dict.fromkeys(
        (aten._scaled_dot_product_flash_attention_for_cpu, aten._scaled_dot_product_flash_attention), _attention
    ),
    **dict.fromkeys(
        (aten._scaled_dot_product_efficient_attention, aten._scaled_dot_product_cudnn_attention), _attention
    ),
    aten._scaled_dot_product_fused_attention_overrideable: _attention,
    # Views, copies and constants compute nothing.
    **dict.fromkeys(
        (aten.view, aten._unsafe_view, aten.expand, aten.permute, aten.transpose, aten.t, aten.unsqueeze), _nothing
    ),
    **dict.fromkeys(
        (aten.squeeze, aten.select, aten.slice, aten.cat, aten.stack, aten.clone, aten.empty, aten.detach), _nothing
    ),
    **dict.fromkeys((aten._to_copy, aten.repeat, aten.alias, aten.split, aten.split_with_sizes, aten.unbind), _nothing),
    **dict.fromkeys((aten.unsafe_split, aten.unsafe_split_with_sizes, aten.unsafe_chunk), _nothing),  # LSTMs and GRUs
    **dict.fromkeys((aten.chunk, aten.as_strided, aten._reshape_alias, aten.unfold, aten.flip, aten.roll), _nothing),
    **dict.fromkeys(
        (aten.constant_pad_nd, aten.reflection_pad1d, aten.reflection_pad2d, aten.replication_pad2d), _nothing
    ),
    **dict.fromkeys((aten.index, aten.index_select, aten.gather, aten.embedding, aten.copy, aten.fill), _nothing),
    **dict.fromkeys((aten.arange, aten.zeros, aten.ones, aten.full, aten.scalar_tensor, aten.lift_fresh), _nothing),
    **dict.fromkeys((aten.zeros_like, aten.ones_like, aten.empty_like, aten.full_like, aten.new_zeros), _nothing),
    **dict.fromkeys((aten.new_ones, aten.new_empty, aten.new_full, aten.pixel_shuffle, aten.masked_fill), _nothing),
    **dict.fromkeys((aten.im2col, aten.native_dropout, aten.bernoulli, aten.col2im), _nothing),
    # The 1/√d of attention, as `_product` says.
    aten.mul.Scalar: _nothing,
}
