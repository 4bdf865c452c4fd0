"""MC dropout: dropout that stays on at prediction; each draw of the masks is a member."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from sae.backbones import PlainNetwork, build_backbone
from sae.backbones.surgery import replaced, weight_layers
from sae.backbones.vit import EncoderLayer, OpenDotProduct, Positions
from sae.config.backbones import BackboneSettings
from sae.config.methods import McDropoutConfig
from sae.core.predictive import member_nll
from sae.core.seeds import derive_seed
from sae.core.task import DataSpec, Shape
from sae.methods.base import Batch, Loss, RepeatedNetwork, SingleExitMethod


class MaskSource:
    """The source of random numbers for all dropout layers of a network.

    At prediction each layer has its own generator, seeded by the run's seed and the layer, which
    starts again in every pass. Rows are drawn in order, so the masks of a sample depend on its
    place in the batch, and not on how many samples come after it.
    In training all layers draw from the generator of the step.

    Attributes:
        seed: The seed of the run.
    """

    def __init__(self) -> None:
        self.seed = 0
        self._generator: torch.Generator | None = None

    def generator(self, layer: int) -> torch.Generator:
        """Return the generator that the layer with this number draws from now."""
        if self._generator is not None:
            return self._generator
        return torch.Generator().manual_seed(derive_seed(self.seed, "masks", layer))

    @contextmanager
    def drawing_from(self, generator: torch.Generator) -> Iterator[None]:
        """Let every layer draw from this generator within the context."""
        self._generator = generator
        try:
            yield
        finally:
            self._generator = None


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
        shape = [x.shape[axis] for axis in axes]
        drawn = torch.rand(shape, generator=self.source.generator(self.layer), device="cpu") < self.keep
        mask = drawn.to(x) / (self.keep or 1.0)
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
        """Return a copy with fixed masks: those of a sample that is alone or first in its batch."""
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
        dict.fromkeys(places.within, around_dropout)  # first: they are inside of others
        | dict.fromkeys(places.before, behind_dropout)
        | dict.fromkeys(places.after, before_dropout),
    )


@dataclass(frozen=True)
class DropoutPlaces:
    """The names of the modules of a network that get a dropout.

    Attributes:
        before: Those that get it before them.
        after: Those that get it behind them.
        within: Products of attention, which get it on their probabilities.
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

    def __init__(self, settings: McDropoutConfig, backbone: BackboneSettings, spec: DataSpec) -> None:
        plain = PlainNetwork(build_backbone(backbone, spec.shape), spec.task.num_outputs)
        source = MaskSource()
        network = DrawnNetwork(with_dropout(plain, settings.rate, source), settings.samples)
        super().__init__(spec.task, backbone.depth, network)
        self.settings, self.source = settings, source

    def training_loss(self, batch: Batch, progress: float, generator: torch.Generator) -> Loss:
        """Return the mean negative log-likelihood, with one draw of the masks for each sample."""
        del progress
        with self.source.drawing_from(generator):
            outputs = self.network.network(batch.inputs)
        return Loss(member_nll(self.task, outputs, batch.targets).mean())

    def member_outputs(self, x: Tensor) -> Tensor:
        """Return one member for each draw; draws follow from the seed of the run."""
        self.source.seed = self.seed
        return super().member_outputs(x)

    def shipped_outputs(self, x: Tensor) -> Tensor:
        """Return the outputs of every sample alone, with the masks of the first sample of a batch."""
        return torch.cat([self.member_outputs(sample) for sample in x.split(1)])

    def pruned(self, eval_exits: int | None = None) -> DrawnNetwork:
        """Return a copy of the network that draws the same masks as the method."""
        self.source.seed = self.seed
        return super().pruned(eval_exits)
