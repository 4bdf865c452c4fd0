"""Surveys of modules: the order in which submodules run, what they return, and which could be exits."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sae.backbones.base import FeatureKind, StageInfo, evaluating
from sae.backbones.recording import exit_features
from sae.backbones.surgery import WeightLayer
from sae.core.errors import ConfigError, FeaturesWarning, ShapeError
from sae.core.task import Shape

MOST_SUGGESTED = 5
"""Exits that are suggested at most; a network of the paper has up to 5."""

SURVEYED = 3
"""Samples that a survey runs on."""

FEATURES_FIRST = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm)
FEATURES_LAST = (nn.Linear, nn.LayerNorm, nn.MultiheadAttention)


@dataclass(frozen=True)
class Call:
    """One run of a submodule.

    Attributes:
        name: Its name in the whole module.
        module: The submodule.
        num_rows: The first dimension of its first argument; None if that is not a tensor.
        shape: The shape of its output for `SURVEYED` samples; None if that is not a tensor.
    """

    name: str
    module: nn.Module
    num_rows: int | None
    shape: Shape | None

    @property
    def is_sample_first(self) -> bool:
        """Whether it returned a tensor whose first dimension is the samples."""
        return self.shape is not None and len(self.shape) > 1 and self.shape[0] == SURVEYED


def survey(module: nn.Module, shape: Shape) -> list[Call]:
    """Run a module on a few random samples and return the calls of its submodules in the order in which they ended."""
    calls: list[Call] = []

    def note(name: str) -> Callable[..., None]:
        def hook(called: nn.Module, inputs: tuple[object, ...], output: object) -> None:
            given = inputs[0] if inputs else None
            num_rows = len(given) if isinstance(given, Tensor) and given.dim() else None
            calls.append(Call(name, called, num_rows, tuple(output.shape) if isinstance(output, Tensor) else None))

        return hook

    with ExitStack() as hooks, evaluating(module), torch.no_grad():
        for name, item in module.named_modules():
            hooks.enter_context(item.register_forward_hook(note(name)))
        try:
            module(random_samples(module, shape, SURVEYED))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise ShapeError(
                f"the module must take a batch of samples of shape {list(shape)}, but it fails: {first_line(error)} "
                "(a sample is given without a batch dimension)"
            ) from error
    return calls


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its class if it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def random_samples(module: nn.Module, shape: Shape, count: int) -> Tensor:
    """Return random samples for a module, the same ones each time."""
    drawn = torch.randn((count, *shape), generator=torch.Generator().manual_seed(count))
    return drawn.to(next(module.parameters(), drawn).device)


def check_exits(calls: Sequence[Call], exits: Sequence[str]) -> None:
    """Refuse exits that do not run once each, in this order, and return a tensor."""
    if not exits or len(set(exits)) < len(exits):
        raise ConfigError(
            f"exits must be different names of submodules, at least one, got {', '.join(exits) or 'none'}"
        )
    places = []
    for name in exits:
        found = [(place, call) for place, call in enumerate(calls) if call.name == name]
        if len(found) != 1:
            how = f"runs {len(found)} times" if found else "does not run"
            known = ", ".join(dict.fromkeys(call.name for call in calls if call.name and "." not in call.name))
            raise ConfigError(f"an exit must run exactly once for a sample, but {name!r} {how}; these run: {known}")
        place, call = found[0]
        if not call.is_sample_first:
            what = "no tensor" if call.shape is None else f"a tensor of shape {list(call.shape)} for {SURVEYED} samples"
            raise ConfigError(
                f"an exit must return one tensor with the samples first, but {name!r} returns {what}: name another exit"
            )
        places.append(place)
    ordered = [name for _, name in sorted(zip(places, exits, strict=True))]
    if ordered != list(exits):
        raise ConfigError(
            f"exits must be given in the order in which they run, {', '.join(ordered)}; got {', '.join(exits)}"
        )


def first_weight_layer(calls: Iterable[Call]) -> str:
    """Return the name of the first Linear or convolution that runs."""
    for call in calls:
        if isinstance(call.module, WeightLayer):
            return call.name
    raise ConfigError("the module must run a Linear or a convolution as a submodule, but it runs none")


def stage_infos(
    calls: Sequence[Call], exits: Sequence[str], kinds: Mapping[str, str] | None = None
) -> tuple[StageInfo, ...]:
    """Return the features of each exit; their kind follows from their shape and the layers before them.

    Args:
        calls: A survey.
        exits: Names that `check_exits` has accepted.
        kinds: Given kinds by exit; the others are inferred.
    """
    given = dict(kinds or {})
    unknown = [name for name in given if name not in exits]
    if unknown:
        raise ConfigError(f"kinds must be those of exits, {', '.join(exits)}; got one of {unknown[0]!r}")
    infos = []
    for name in exits:
        end = next(place for place, call in enumerate(calls) if call.name == name)
        shape = calls[end].shape
        assert shape is not None, "the exits must have been checked"
        kind = given.get(name) or _kind(name, shape[1:], calls[: end + 1])
        if kind not in list(FeatureKind):
            raise ConfigError(f"the kind of an exit must be one of {', '.join(FeatureKind)}; got {kind!r} for {name!r}")
        infos.append(StageInfo(FeatureKind(kind), shape[1:]))
    return tuple(infos)


def _kind(name: str, shape: Shape, calls: Sequence[Call]) -> FeatureKind:
    """Return the kind of features; with several dimensions, the last layer before them decides where features are."""
    if len(shape) == 1:
        return FeatureKind.VECTOR
    if len(shape) > 4:
        raise ConfigError(
            f"an exit must return a vector, tokens, a signal, a map or a volume, got {list(shape)}: {name}"
        )
    if len(shape) < 4 and _are_features_last(name, shape, calls):
        return FeatureKind.TOKENS
    return {2: FeatureKind.SIGNAL, 3: FeatureKind.MAP, 4: FeatureKind.VOLUME}[len(shape)]


def _are_features_last(name: str, shape: Shape, calls: Sequence[Call]) -> bool:
    is_cube = len(shape) == 3 and shape[0] == shape[-1]  # then a Linear proves nothing: blocks on maps use it, too
    for call in reversed(calls):
        if isinstance(call.module, FEATURES_LAST) and _width(call.module) == shape[-1] and not is_cube:
            return True
        if isinstance(call.module, FEATURES_FIRST) and _width(call.module) == shape[0]:
            return False
    layers = [call for call in calls if isinstance(call.module, FEATURES_FIRST + FEATURES_LAST)]
    if layers and isinstance(layers[-1].module, FEATURES_FIRST) and (layers[-1].shape or ())[2:] == shape[1:]:
        return False  # joined on features: no layer has as many, but the last one has its own at the same places
    raise ConfigError(
        f"{name!r} returns {list(shape)}, and no layer before it says which dimension holds the features: "
        f"give its kind, kinds={{{name!r}: 'tokens'}} for features last, 'signal' or 'map' for features first"
    )


def _width(module: nn.Module) -> int:
    for attribute in ("out_features", "out_channels", "num_features", "num_channels", "embed_dim"):
        if hasattr(module, attribute):
            return int(getattr(module, attribute))
    return int(module.normalized_shape[-1])  # type: ignore[index]


def suggest_exits(module: nn.Module, sample: Tensor, most: int = MOST_SUGGESTED) -> list[str]:
    """Propose exits for a module: the blocks of its trunk, in the order in which they run.

    timm's networks name their stages themselves (`feature_info`). If they also return their features
    (`forward_intermediates`), a run on random samples compares those with the outputs of the named
    submodules, and a warning says where they differ. In any other module the blocks are the submodules of
    the container that holds most of the weights; in a flat list of layers, a block is a layer with
    weights and all that follows up to the next one. The classifier, which computes the module's own
    output, is never proposed.

    Args:
        module: The module.
        sample: One sample, without a batch.
        most: The largest number of exits; from more blocks, evenly spaced ones are taken, always with the last.

    Example:
        >>> layers = [nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)]
        >>> suggest_exits(nn.Sequential(*layers), torch.zeros(4))
        ['1', '3']
    """
    calls = survey(module, tuple(sample.shape))
    counts: dict[str, int] = {}
    for call in calls:
        counts[call.name] = counts.get(call.name, 0) + 1
    once = [call for call in calls if counts[call.name] == 1 and call.is_sample_first and call.name]
    blocks = _published(module, [call.name for call in once])
    if blocks:
        _check_published(module, tuple(sample.shape), blocks)
    blocks = blocks or _blocks(module, once)
    if not blocks:
        raise ConfigError("no submodule of this module can be an exit: name exits yourself, or split its forward")
    if len(blocks) <= most:
        return blocks
    places = {round((number + 1) * len(blocks) / most) - 1 for number in range(most)}
    return [blocks[place] for place in sorted(places)]


def _published(module: nn.Module, ran: Sequence[str]) -> list[str]:
    """Return the stages that a network of timm names, in the order in which they run, if they can be exits."""
    info = getattr(module, "feature_info", None)
    listed = getattr(info, "info", info)
    found = [str(item.get("module", "")) for item in listed] if isinstance(listed, list) else []
    return [name for name in ran if name in found] if len(found) > 1 and set(ran).issuperset(found) else []


def _check_published(module: nn.Module, shape: Shape, names: Sequence[str]) -> None:
    """Warn if the named stages do not return the features that the network itself returns."""
    own = getattr(module, "forward_intermediates", None)
    if not callable(own):
        return
    x = random_samples(module, shape, SURVEYED)
    with evaluating(module), torch.no_grad():
        try:
            returned = own(x, intermediates_only=True)
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
            _warn_of_features(
                module, f"its forward_intermediates, which would confirm them, fails: {first_line(error)}"
            )
            return
        found = exit_features(module, x, names)
    if not isinstance(returned, list | tuple) or len(returned) != len(names):
        what = len(returned) if isinstance(returned, list | tuple) else f"a {type(returned).__name__}"
        _warn_of_features(module, f"its forward_intermediates must return one tensor for each of them, got {what}")
        return
    different = [name for name, one, other in zip(names, found, returned, strict=True) if not _are_same(one, other)]
    if different:
        _warn_of_features(module, f"its forward_intermediates returns other features than {', '.join(different)}")


def _warn_of_features(module: nn.Module, reason: str) -> None:
    warnings.warn(
        f"the exits are the stages that feature_info of {type(module).__name__} names, but {reason}; "
        "an exit reads the output of the submodule: name other exits if you want others",
        FeaturesWarning,
        stacklevel=4,
    )


def _are_same(found: Tensor, returned: object) -> bool:
    """Return whether features agree, whether features come first or last, with or without class tokens in front."""
    if not isinstance(returned, Tensor) or returned.dim() < 2 or found.dim() < 2:
        return False
    ways = [found]
    if found.dim() > 2:  # (batch, …, feature) → (batch, feature, …)
        ways.append(found.movedim(-1, 1))
    if found.dim() == 3:  # timm returns tokens as a map without the class token
        tokens = returned[0, 0].numel()
        ways.append(found[:, max(0, found.shape[1] - tokens) :].movedim(-1, 1))
        returned = returned.flatten(2) if returned.dim() == 4 else returned
    return any(way.shape == returned.shape and torch.allclose(way, returned, rtol=1e-4, atol=1e-5) for way in ways)


def _blocks(module: nn.Module, once: Sequence[Call]) -> list[str]:
    prefix, level = _trunk(module, once)
    if not level:  # every submodule that runs is alone in its list
        return []
    last = once[-1].name  # the module that returns last at this level is or holds the classifier
    nested = [name for name in level if list(module.get_submodule(name).children()) and _num_weights(module, name)]
    if len(nested) > 1:
        ends = nested
    else:
        weighted = [place for place, name in enumerate(level) if _has_layers(module, name)]
        ends = [level[following - 1] for following in [*weighted[1:], len(level)]]
    kept = [name for name in dict.fromkeys(ends) if not (name == last or (not prefix and last.startswith(f"{name}.")))]
    return kept or ends


def _trunk(module: nn.Module, once: Sequence[Call]) -> tuple[str, list[str]]:
    """Return the container that holds most of the weights, and the names of its submodules that run, in order."""
    prefix = ""
    while True:
        container = module.get_submodule(prefix)
        names = [f"{prefix}.{name}" if prefix else name for name, _ in container.named_children()]
        ran = [call.name for call in once if call.name in names]
        total = sum(_num_weights(module, name) for name in names)
        largest = max(names, key=lambda name: _num_weights(module, name), default="")
        holds_most = largest and _num_weights(module, largest) > total / 2
        blocks = [name for name in ran if _has_layers(module, name)]
        inner = _opened(module, largest)
        inner_blocks = [call for call in once if _parent(call.name) == inner and _has_layers(module, call.name)]
        if not (holds_most and len(inner_blocks) > 1) or (largest in ran and len(blocks) > 3):
            return prefix, ran
        prefix = inner


def _opened(module: nn.Module, name: str) -> str:
    """Return the name of a container, or of its only child (and so on), such as the list of an encoder."""
    inner = [child for child, _ in module.get_submodule(name).named_children()]
    return _opened(module, f"{name}.{inner[0]}") if name and len(inner) == 1 else name


def _parent(name: str) -> str:
    return name.rpartition(".")[0]


def _has_layers(module: nn.Module, name: str) -> bool:
    return any(isinstance(item, WeightLayer) for item in module.get_submodule(name).modules())


def _num_weights(module: nn.Module, name: str) -> int:
    return sum(parameter.numel() for parameter in module.get_submodule(name).parameters())
