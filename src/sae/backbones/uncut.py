"""Modules that cannot be cut between their exits: they run up to the last used exit in one piece."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from sae.backbones.base import Backbone, StageInfo, State, copy_of
from sae.backbones.recording import exit_features
from sae.backbones.survey import SURVEYED, random_samples
from sae.core.task import Shape


class UncutModule(nn.Module):
    """A module that runs up to its last exit in one piece.

    Shape: (batch, *sample) → the features of each exit.

    Args:
        module: The module; submodules that do not run before the last exit are taken out.
        exits: Names of its submodules.
        first_layer: The name of the layer that takes the samples.
        unused: For each exit, the names of submodules that have not run by then.
    """

    def __init__(
        self, module: nn.Module, exits: Sequence[str], first_layer: str, unused: Sequence[frozenset[str]]
    ) -> None:
        super().__init__()
        self.module, self.exits, self.unused = module, tuple(exits), tuple(unused)
        self.first_layer = f"module.{first_layer}"
        for name in unused[-1]:
            module.set_submodule(name, Skipped())

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the features of each exit."""
        return tuple(exit_features(self.module, x, self.exits))

    def up_to(self, depth: int) -> "UncutModule":
        """Return a copy that stops at an earlier exit and holds only the submodules that run by then."""
        first_layer = self.first_layer.removeprefix("module.")
        return UncutModule(copy_of(self.module), self.exits[:depth], first_layer, self.unused[:depth])


class Skipped(nn.Module):
    """A stand-in for a submodule that no exit needs: it passes on its first argument."""

    def forward(self, x: Tensor, *_: object, **__: object) -> Tensor:
        """Return the argument."""
        return x


class NextFeatures(nn.Module):
    """A stage of an uncut module: the stem has computed all features, and this moves on to those of the next exit."""

    def forward(self, state: tuple[Tensor, ...]) -> State:
        """Drop the first features."""
        return state[1:]


class UncutBackbone(Backbone):
    """A backbone whose stem computes all stages, because the module cannot be cut between them."""

    def __init__(self, module: UncutModule, stage_info: Sequence[StageInfo], reason: str) -> None:
        stages = [nn.Identity(), *(NextFeatures() for _ in stage_info[1:])]
        super().__init__(module, stages, stage_info)
        self.uncut_reason = reason

    def up_to(self, depth: int) -> tuple[nn.Module, list[nn.Module]]:
        """Return a copy of the module that stops at an exit, and the first stages."""
        assert isinstance(self.stem, UncutModule)
        return self.stem.up_to(depth), [copy_of(stage) for stage in self.stages[:depth]]


def unused_modules(module: nn.Module, shape: Shape, exits: Sequence[str]) -> tuple[frozenset[str], ...]:
    """Return, for each exit, the outermost submodules that have not run when it returns."""
    done: set[str] = set()
    found: list[frozenset[str]] = []

    def note(name: str) -> Callable[..., None]:
        def hook(*_: object) -> None:
            done.add(name)
            if name in exits:
                found.append(frozenset(_outermost(module, done)))

        return hook

    x = random_samples(module, shape, SURVEYED)
    with ExitStack() as hooks, torch.no_grad():
        for name, item in module.named_modules():
            hooks.enter_context(item.register_forward_hook(note(name)))
        exit_features(module.eval(), x, exits)
    for depth, names in enumerate(found, start=1):
        smaller = copy_of(module)
        for name in names:
            smaller.set_submodule(name, Skipped())
        try:
            with torch.no_grad():
                exit_features(smaller, x, exits[:depth])
        except (
            RuntimeError,
            AttributeError,
            TypeError,
            ValueError,
        ):  # the module reads weights of a submodule that does not run
            found[depth - 1] = frozenset()
    return tuple(found)


def _outermost(module: nn.Module, done: set[str]) -> list[str]:
    """Return the outermost submodules with weights in which nothing has run; one that ran may use all its parts."""
    found: list[str] = []
    for name, item in module.named_modules():
        is_inside = any(name.startswith(f"{other}.") for other in (*found, *done) if other)
        has_run = any(other == name or other.startswith(f"{name}.") for other in done)
        if name and not is_inside and not has_run and list(item.parameters()):
            found.append(name)
    return found
