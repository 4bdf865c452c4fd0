"""Dry runs: one sample passes through a network on torch's `meta` device, where tensors have shapes but no numbers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode

from sae.backbones.base import evaluating
from sae.core.errors import CostError, ShapeError
from sae.core.task import Shape

aten = torch.ops.aten
Args = tuple[Any, ...]


class DryRun(TorchDispatchMode):
    """A watcher of every operation of a dry run.

    On `meta`, torch works out the result of many common operations in slow Python code, which also
    imports its compiler. `RESULTS` gives those results at once.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False, so that torch does not import its compiler to guard this class, which takes 1.5 s."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Args = (), kwargs: dict[str, Any] | None = None) -> Any:
        result_of = None if any((kwargs or {}).values()) else RESULTS.get(func)
        if result_of and _first(args).is_meta:
            return result_of(*args)
        return func(*args, **(kwargs or {}))


def dry_run(network: nn.Module, shape: Shape, watcher: DryRun | None = None) -> None:
    """Pass one sample of `shape` through a network in evaluation mode, for a watcher or for hooks.

    The network does not change: its weights are replaced for this pass, which is cheaper than a copy.
    """
    state = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    on_meta = {name: tensor.detach().to("meta") for name, tensor in state.items()}
    sample = torch.empty((1, *shape), device="meta")
    try:
        with evaluating(network), torch.no_grad(), attention_in_steps(), watcher or DryRun():
            functional_call(network, on_meta, sample)
    except RuntimeError as error:
        if "meta tensors" not in str(error):
            raise
        raise CostError(
            "the forward of the network must not look at the values of its samples, or its cost cannot be counted, but "
            f"it does ({str(error).splitlines()[0]}): write torch.where in place of if, or leave the cost out"
        ) from error


@contextmanager
def attention_in_steps() -> Iterator[None]:
    """Let torch's attention layers run their operations one by one, instead of one for a whole encoder layer."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _first(args: Args) -> Tensor:
    tensor: Tensor = args[0] if isinstance(args[0], Tensor) else args[0][0]
    return tensor


def _empty(shape: Sequence[int], like: Tensor) -> Tensor:
    return torch.empty(shape, dtype=like.dtype, device=like.device)


def _alike(x: Tensor, *_: object) -> Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)


def _normalised(x: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    """Return the output of a normalisation, and its statistics, which only training uses."""
    unused = _empty([0], x)
    return _alike(x), unused, unused


def _broadcast(x: Tensor, y: Tensor | float) -> Tensor:
    shape = (
        np.broadcast_shapes(x.shape, y.shape) if isinstance(y, Tensor) else x.shape
    )  # torch's own function imports sympy
    return _alike(x) if shape == x.shape else _empty(shape, x)


def _product(x: Tensor, weight: Tensor) -> Tensor:
    _check_width("a product", x.shape[-1], weight.shape[-2])
    return _empty([*x.shape[:-1], weight.shape[-1]], x)


def _product_and_bias(_: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    return _product(x, weight)


def _check_width(what: str, given: int, wanted: int) -> None:
    if given != wanted:
        raise ShapeError(f"{what} of the network takes {wanted} features, got {given}: give the shape of its samples")


def _convolved(x: Tensor, weight: Tensor, bias: Tensor | None, *how: Any) -> Tensor:
    stride, padding, dilation, is_transposed = how[:4]
    if is_transposed:
        return aten.convolution.default(x, weight, bias, *how)  # type: ignore[no-any-return]
    _check_width("a convolution", x.shape[1], weight.shape[1] * int(how[5]))
    return _slid_over(x, len(weight), weight.shape[2:], stride, padding, dilation)


def _max_pooled(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    rounds_up: bool = False,
) -> Any:
    if x.dim() != 4:
        return aten.max_pool2d_with_indices.default(x, kernel, stride, padding, dilation, rounds_up)
    geometry = _pair(kernel), _pair(stride or kernel), _pair(padding), _pair(dilation)
    pooled = _slid_over(x, x.shape[1], *geometry, rounds_up)
    return pooled, pooled


def _pair(values: Sequence[int]) -> Sequence[int]:
    return values if len(values) == 2 else (*values, *values)


def _slid_over(
    x: Tensor,
    num_channels: int,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    rounds_up: bool = False,
) -> Tensor:
    """Return the output of a window that slides over positions."""
    geometry = zip(x.shape[2:], kernel, stride, padding, dilation, strict=True)
    return _empty([len(x), num_channels, *(_num_windows(*sizes, rounds_up) for sizes in geometry)], x)


def _num_windows(size: int, width: int, step: int, pad: int, gap: int, rounds_up: bool) -> int:
    """Count the windows; if rounded up, the last may end outside, but must start inside or in the padding before."""
    room = size + 2 * pad - gap * (width - 1) - 1
    if not rounds_up:
        return room // step + 1
    count = -(-room // step) + 1
    return count - 1 if (count - 1) * step >= size + pad else count


def _mean(x: Tensor, dims: Sequence[int] | None, keeps_dims: bool = False) -> Tensor:
    gone = {dim % x.dim() for dim in dims or range(x.dim())}
    kept = [1 if dim in gone else size for dim, size in enumerate(x.shape) if keeps_dims or dim not in gone]
    return _empty(kept, x)


def _joined(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    shape = list(tensors[0].shape)
    shape[dim] = sum(tensor.shape[dim] for tensor in tensors)
    return _empty(shape, tensors[0])


def _repeated(x: Tensor, times: Sequence[int]) -> Tensor:
    shape = [1] * (len(times) - x.dim()) + list(x.shape)
    return _empty([size * count for size, count in zip(shape, times, strict=True)], x)


def _stacked(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    shape = list(tensors[0].shape)
    shape.insert(dim % (len(shape) + 1), len(tensors))
    return _empty(shape, tensors[0])


RESULTS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((aten.relu.default, aten.gelu.default, aten._softmax.default, aten._safe_softmax.default), _alike),
    **dict.fromkeys((aten.zeros_like.default, aten.rsqrt.default, aten.mul.Scalar), _alike),
    **dict.fromkeys((aten.native_batch_norm.default, aten.native_layer_norm.default), _normalised),
    **dict.fromkeys((aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor), _broadcast),
    **dict.fromkeys((aten.mm.default, aten.bmm.default), _product),
    **dict.fromkeys((aten.addmm.default, aten.baddbmm.default), _product_and_bias),
    aten.max_pool2d_with_indices.default: _max_pooled,
    aten.convolution.default: _convolved,
    aten.mean.dim: _mean,
    aten.repeat.default: _repeated,
    aten.cat.default: _joined,
    aten.stack.default: _stacked,
}
"""Results of operations whose first argument is on `meta`, called without keywords."""
