"""MC dropout: dropout that stays on at prediction; each draw of the masks is a member."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from sae.backbones import PlainNetwork, build_backbone
from sae.backbones.surgery import replaced, weight_layers
from sae.backbones.vit import EncoderLayer, OpenDotProduct, Positions
from sae.config.backbones import BackboneSource
from sae.config.methods import McDropoutConfig
from sae.core.predictive import member_loss
from sae.core.seeds import derive_seed
from sae.core.task import DataSpec, Shape
from sae.methods.base import Batch, Loss, RepeatedNetwork, SingleExitMethod

WORDS_PER_BLOCK = 8
"""Numbers of 32 bits that one step of Philox gives."""


class MaskSource:
    """The source of random numbers for all dropout layers of a network.

    At prediction each layer has one endless stream of numbers, which depends on the run's seed and the
    layer, and every row of every sample has its place in it. The masks of a sample therefore depend on its
    number in the split alone: not on the batch size, and no two samples share them.
    In training all layers draw from the generator of the step.

    Attributes:
        seed: The seed of the run.
        first_row: The number of the batch's first row: the number of its first sample times the draws per sample.
    """

    def __init__(self) -> None:
        self.seed, self.first_row = 0, 0
        self._generator: torch.Generator | None = None

    def kept(self, layer: int, shape: Sequence[int], keep: float) -> Tensor:
        """Draw which numbers of a layer's input, (row, …), are kept with probability `keep`."""
        if self._generator is not None:
            return torch.rand(list(shape), generator=self._generator, device="cpu") < keep
        num_rows, size = shape[0], math.prod(shape[1:])
        blocks = -(-size // WORDS_PER_BLOCK)  # a row starts with a new block, so that its place can be computed
        stream = np.random.Philox(key=derive_seed(self.seed, "masks", layer), counter=self.first_row * blocks)
        words = stream.random_raw(num_rows * blocks * WORDS_PER_BLOCK // 2).astype("<u8", copy=False).view("<u4")
        limit = np.uint64(round(keep * 2**32))  # numpy 2.0 crashes where a Python number is too large for the words
        kept = words.reshape(num_rows, -1)[:, :size] < limit
        return torch.from_numpy(kept).reshape(list(shape))

    @contextmanager
    def drawing_from(self, generator: torch.Generator) -> Iterator[None]:
        """Let every layer draw from this generator within the context."""
        self._generator = generator
        try:
            yield
        finally:
            self._generator = None

    @contextmanager
    def starting_at(self, row: int) -> Iterator[None]:
        """Give the rows of a batch the numbers from `row` on within the context."""
        self.first_row = row
        try:
            yield
        finally:
            self.first_row = 0


class Mask(nn.Module):
    """The factors of a dropout: 0 with probability `rate`, otherwise 1 / (1 − rate).

    A rate of 1 gives zeros. Masks are drawn on the CPU, so that a seed gives the same masks on every device.
    """

    is_free_of_cost = True  # like the paper, we count only the product

    def __init__(self, rate: float, source: MaskSource, layer: int) -> None:
        super().__init__()
        self.keep, self.source, self.layer = 1.0 - rate, source, layer

    def forward(self, x: Tensor) -> Tensor:
        """Draw a mask shaped like `x`; maps are drawn channels last, like their memory layout."""
        axes = (0, *range(2, x.dim()), 1) if x.dim() == 4 else tuple(range(x.dim()))
        kept = self.source.kept(self.layer, [x.shape[axis] for axis in axes], self.keep)
        mask = kept.to(x) / (self.keep or 1.0)
        return mask.movedim(-1, 1) if x.dim() == 4 else mask


class Dropout(nn.Module):
    """x · mask."""

    def __init__(self, rate: float, source: MaskSource, layer: int) -> None:
        super().__init__()
        self.mask = Mask(rate, source, layer)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, …) → (batch, …)."""
        mask: Tensor = self.mask(x)
        return x * mask


class FixedMask(nn.Module):
    """One fixed mask for each member, the same for every sample, for graphs without random numbers.

    Args:
        mask: The masks that `Mask` draws for one sample, (member, …).
    """

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        """Map (row, …) → (row, …), with rows ordered by sample, then member."""
        rows: Tensor = x.unflatten(0, (-1, len(self.mask))) * self.mask
        return rows.flatten(0, 1)


class DrawnNetwork(RepeatedNetwork):
    """A network whose members differ in their dropout masks."""

    def folded(self, shape: Shape) -> Self:
        """Return a copy with fixed masks: those of the first sample of a split, which a single sample gets, too."""
        names = [name for name, module in self.named_modules() if isinstance(module, Dropout)]
        drawn: dict[str, Tensor] = {}

        def keep(name: str) -> Callable[..., None]:
            return lambda _module, _inputs, mask: drawn.__setitem__(name, mask.contiguous())

        hooks = [self.get_submodule(f"{name}.mask").register_forward_hook(keep(name)) for name in names]
        with torch.no_grad():
            self(torch.zeros(1, *shape, device=self.weights.device))
        for hook in hooks:
            hook.remove()

        def fixed(name: str) -> Callable[[nn.Module], nn.Module]:
            return lambda _: FixedMask(drawn[name])

        return replaced(self, {name: fixed(name) for name in names})


def with_dropout(network: PlainNetwork, rate: float, source: MaskSource) -> PlainNetwork:
    """Return a copy of the network with dropout layers added.

    A vision transformer gets them behind the positions, on the attention probabilities, behind the
    attention and both linear layers of each MLP (the first: behind its activation), and before the
    head; any other network before every Linear and convolution except the first.
    """
    places = dropout_places(network)
    dropouts = (Dropout(rate, source, number) for number in itertools.count())

    def behind_dropout(layer: nn.Module) -> nn.Module:
        return nn.Sequential(next(dropouts), layer)

    def before_dropout(layer: nn.Module) -> nn.Module:
        return nn.Sequential(layer, next(dropouts))

    def around_dropout(_: nn.Module) -> nn.Module:
        return OpenDotProduct(next(dropouts))

    return replaced(
        network,
        dict.fromkeys(places.within, around_dropout)  # first, because they are inside others
        | dict.fromkeys(places.before, behind_dropout)
        | dict.fromkeys(places.after, before_dropout),
    )


@dataclass(frozen=True)
class DropoutPlaces:
    """The names of the modules of a network that get a dropout.

    Attributes:
        before: Modules with a dropout in front of them.
        after: Modules with a dropout behind them.
        within: Attention products with a dropout on their probabilities.
    """

    before: list[str]
    after: list[str]
    within: list[str]


def dropout_places(network: PlainNetwork) -> DropoutPlaces:
    """Return where a network gets dropout."""
    layers = weight_layers(network)
    named = dict(network.named_modules())
    blocks = [name for name, module in named.items() if isinstance(module, EncoderLayer)]
    if not blocks:
        return DropoutPlaces(layers[1:], [], [])
    positions = [name for name, module in named.items() if isinstance(module, Positions)]
    behind = [f"{block}.{place}" for block in blocks for place in ("attention.1", "mlp.2", "mlp.3")]
    return DropoutPlaces(layers[-1:], positions + behind, [f"{block}.attention.1.product" for block in blocks])


class McDropout(SingleExitMethod[DrawnNetwork]):
    """MC dropout; a member is one draw of all masks."""

    def __init__(self, settings: McDropoutConfig, backbone: BackboneSource, spec: DataSpec) -> None:
        plain = PlainNetwork(build_backbone(backbone, spec.shape), spec.task.num_outputs)
        source = MaskSource()
        network = DrawnNetwork(with_dropout(plain, settings.rate, source), settings.samples)
        super().__init__(spec.task, backbone.depth, network)
        self.settings, self.source = settings, source

    def training_loss(self, batch: Batch, progress: float, generator: torch.Generator) -> Loss:
        """Return the mean loss, with one draw of the masks for each sample."""
        del progress
        with self.source.drawing_from(generator):
            outputs = self.network.network(batch.inputs)
        guidance = batch.guidance and batch.guidance.of_all(0)
        return Loss(batch.mean(member_loss(self.task, outputs, batch.targets, guidance)))

    def member_outputs(self, x: Tensor) -> Tensor:
        """Return one member for each draw; the samples get the masks of the first samples of a split."""
        return self.outputs_from(0, x)

    def outputs_from(self, first: int, x: Tensor) -> Tensor:
        """Return one member for each draw; draws depend on the run's seed and the samples' numbers alone."""
        self.source.seed = self.seed
        with self.source.starting_at(first * self.network.num_members):
            return super().member_outputs(x)

    def shipped_outputs(self, x: Tensor) -> Tensor:
        """Return the outputs of every sample alone, with the masks of the first sample of a split."""
        return torch.cat([self.member_outputs(sample) for sample in x.split(1)])

    def pruned(self, eval_exits: int | None = None) -> DrawnNetwork:
        """Return a copy of the network that draws the same masks as the method."""
        self.source.seed = self.seed
        return super().pruned(eval_exits)
