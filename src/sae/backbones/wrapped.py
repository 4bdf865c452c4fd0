"""Any module as a backbone: its submodules become exits, and its first layer is widened for several inputs."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from sae.backbones.base import Backbone, StageInfo, copy_of
from sae.backbones.cutting import Plan, assemble, plan_cuts
from sae.backbones.recording import CannotCutError, exit_features
from sae.backbones.surgery import WeightLayer
from sae.backbones.survey import (
    SURVEYED,
    Call,
    check_exits,
    first_line,
    first_weight_layer,
    random_samples,
    stage_infos,
    suggest_exits,
    survey,
)
from sae.backbones.uncut import UncutBackbone, UncutModule, unused_modules
from sae.config.backbones import PRETRAINED_DEFAULTS
from sae.core.errors import ConfigError, UncutWarning
from sae.core.task import Classification, DataSpec, Shape

SPREAD = 0.5
"""Initial difference between the first layer's weights for different inputs, as a share of the weights."""


@dataclass(frozen=True)
class WrapPlan:
    """The plan by which a module becomes a backbone, for one shape of samples and one number of inputs.

    Attributes:
        infos: The features of each exit.
        first: The name of the layer that takes the samples.
        cuts: Where the module is cut; None if it cannot be.
        reason: Why it cannot be cut, as the end of a sentence.
        unused: If it cannot be cut: for each exit, the names of submodules that have not run by then.
        fixed: Names of layers that no method may replace.
    """

    infos: tuple[StageInfo, ...]
    first: str
    cuts: Plan | None
    reason: str
    unused: tuple[frozenset[str], ...]
    fixed: frozenset[str]


@dataclass
class Blueprint:
    """The source of a wrapped backbone, from which it is built as often as a method needs it.

    Attributes:
        template: The module that was given, or that the given function returned.
        make: A function that makes a fresh module; None if a module was given.
        exits: Names of submodules, in the order in which they run.
        widen: The name of the layer that takes the samples; None for the first Linear or convolution that runs.
        kinds: The kinds of features that were given, by exit.
        is_pretrained: Whether the weights of the module are kept.
        spread: See `wrap`.
        is_pooled_first: Whether early exits average their maps first.
    """

    template: nn.Module
    make: Callable[[], nn.Module] | None
    exits: tuple[str, ...]
    widen: str | None
    kinds: Mapping[str, str]
    is_pretrained: bool
    spread: float
    is_pooled_first: bool = False
    plans: dict[tuple[Shape, int], WrapPlan] = field(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, object]) -> "Blueprint":
        """Share the blueprint among copies of a backbone: nothing trains it."""
        return self

    def plan(self, shape: Shape, num_inputs: int) -> WrapPlan:
        """Return the plan for this shape and number of inputs; it is made once."""
        key = shape, num_inputs
        if key not in self.plans:
            with torch.random.fork_rng(devices=[]), torch.device("cpu"):
                self.plans[key] = self._make_plan(shape, num_inputs)
        return self.plans[key]

    def _make_plan(self, shape: Shape, num_inputs: int) -> WrapPlan:
        narrow = _prepared_copy(self.template)
        calls = survey(narrow, shape)
        check_exits(calls, self.exits)
        infos = tuple(
            replace(info, is_pooled_first=self.is_pooled_first) for info in stage_infos(calls, self.exits, self.kinds)
        )
        first = self.widen or first_weight_layer(calls)
        if self.widen is not None:
            _check_first(calls, first, self.exits[0])
        wide, wide_shape = narrow, shape
        if num_inputs > 1:
            _check_first(calls, first, self.exits[0])
            wide, wide_shape = copy_of(narrow), (num_inputs * shape[0], *shape[1:])
            wide.set_submodule(first, widened(wide.get_submodule(first), num_inputs, first))
            _check_widened(wide, narrow, shape, num_inputs, self.exits, first)
        fixed, single = _fixed_layers(narrow, calls), narrow if num_inputs > 1 else None
        try:
            cuts = plan_cuts(wide, wide_shape, self.exits, first, single, shape)
            return WrapPlan(infos, first, cuts, "", (), fixed)
        except CannotCutError as error:
            reason = str(error)
        except Exception as error:  # a module that cannot be recorded can still run in one piece
            reason = f"recording its forward fails with {type(error).__name__}"
        return WrapPlan(infos, first, None, reason, unused_modules(narrow, shape, self.exits), fixed)

    def build(self, shape: Shape, num_inputs: int) -> Backbone:
        """Return a new backbone with weights of its own."""
        plan = self.plan(shape, num_inputs)
        module = self._fresh_module()
        for name in plan.fixed:
            module.get_submodule(name).is_fixed = True  # type: ignore[assignment]
        if num_inputs > 1:
            layer = module.get_submodule(plan.first)
            wide = widened(layer, num_inputs, plan.first, self.spread)
            if not self.is_pretrained:
                wide.reset_parameters()
            module.set_submodule(plan.first, wide)
        if torch.get_default_device().type == "meta":
            module = module.to("meta")
        if plan.cuts is None:
            uncut = UncutModule(module, self.exits, plan.first, plan.unused)
            return UncutBackbone(uncut, plan.infos, plan.reason)
        stem, stages = assemble(module, plan.cuts)
        return Backbone(stem, stages, plan.infos)

    def _fresh_module(self) -> nn.Module:
        if self.is_pretrained or torch.get_default_device().type == "meta":
            return _prepared_copy(self.template)
        if self.make is not None:
            return _prepared_copy(self.make())
        module = _prepared_copy(self.template)
        for item in module.modules():
            reset = getattr(item, "reset_parameters", None) or getattr(item, "_reset_parameters", None)
            if callable(reset):
                reset()
        return module


class WrappedBackbone(Backbone):
    """A backbone made of a module, which can be built again: with other weights, or for more inputs.

    Give it to `build_method` in place of the settings of a backbone.

    Attributes:
        blueprint: The source that it is built from.
        name: The class of the module.
        sample_shape: The shape of one sample.
        can_stream: Always False: operations between a module's layers may mix features.
    """

    can_stream = False

    def __init__(self, blueprint: Blueprint, shape: Shape, num_inputs: int, outputs: int | None) -> None:
        built = blueprint.build(shape, num_inputs)
        super().__init__(built.stem, built.stages, built.stage_info)
        self.blueprint, self.sample_shape, self._outputs = blueprint, shape, outputs
        self.uncut_reason, self.name = built.uncut_reason, type(blueprint.template).__name__

    @property
    def method_defaults(self) -> Mapping[str, object]:
        """Defaults of methods that differ on this backbone."""
        return PRETRAINED_DEFAULTS if self.blueprint.is_pretrained else {}

    @property
    def spec(self) -> DataSpec:
        """The shape of a sample, and classification into as many classes as `wrap` was given."""
        if self._outputs is None:
            raise ConfigError("the number of outputs is not known: give it to wrap, wrap(…, outputs=10)")
        return DataSpec(self.sample_shape, Classification(self._outputs))

    def up_to(self, depth: int) -> tuple[nn.Module, list[nn.Module]]:
        """Return copies of the stem and of the first stages, which compute nothing for the others."""
        stem, stages = super().up_to(depth)
        return (stem.up_to(depth) if isinstance(stem, UncutModule) else stem), stages

    def build(self, shape: Shape, num_inputs: int = 1) -> Backbone:
        """Return a new backbone with weights of its own, for this many joined samples."""
        return self.blueprint.build(shape, num_inputs)


def wrap(
    module: nn.Module | Callable[[], nn.Module],
    sample: Tensor,
    exits: Sequence[str] | None = None,
    *,
    inputs: int = 1,
    outputs: int | None = None,
    widen: str | None = None,
    kinds: Mapping[str, str] | None = None,
    pretrained: bool = False,
    spread: float = SPREAD,
) -> WrappedBackbone:
    """Make a backbone of any module: features are read behind the submodules that `exits` names.

    The module itself never changes. Its layers behind the last exit, such as its classifier, are not
    used: every exit gets a head of ours. A method builds as many copies as it needs, each with
    fresh weights: a function that makes the module is called again; a given module is copied, and each
    of its submodules that has `reset_parameters` draws new weights. With `pretrained`, all copies keep
    the weights; the members of a deep ensemble then differ in their heads and in the order of their data.

    Several inputs are joined on channels, so the first layer is widened. With `pretrained`, its weights
    for each of N inputs are the module's divided by N, times 1 ± `spread` with random signs that cancel
    out: with N equal inputs the network computes the same as the module.

    Args:
        module: A module, or a function without arguments that returns one.
        sample: One sample, without a batch.
        exits: Names of submodules, in the order in which they run; by default `suggest_exits`.
        inputs: N, how many joined samples this backbone takes. A method builds its own for the N it needs.
        outputs: The number of classes, for `spec`.
        widen: The name of the layer that takes the samples; by default the first Linear or convolution that runs.
        kinds: Kinds of features by exit (`vector`, `tokens`, `signal`, `map`, `volume`), where shapes do not tell.
        pretrained: Whether to keep the module's weights.
        spread: How much the first layer's weights differ between inputs.

    Example:
        >>> layers = [nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)]
        >>> backbone = wrap(nn.Sequential(*layers), torch.zeros(4), exits=["1", "3"], inputs=2)
        >>> [tuple(features.shape) for features in backbone(torch.zeros(5, 8))]
        [(5, 8), (5, 8)]
    """
    make = None if isinstance(module, nn.Module) else module
    template = module if isinstance(module, nn.Module) else _made(module)
    if not isinstance(sample, Tensor):
        raise ConfigError(f"sample must be one sample as a tensor, without a batch, got {type(sample).__name__}")
    if isinstance(exits, str):
        raise ConfigError(f"exits must be a list of names, got the text {exits!r}: give [{exits!r}]")
    if not isinstance(inputs, int) or inputs < 1:
        raise ConfigError(f"inputs must be a whole number of at least 1, got {inputs}")
    if outputs is not None and (not isinstance(outputs, int) or outputs < 1):
        raise ConfigError(f"outputs must be a whole number of at least 1, got {outputs}")
    chosen = suggest_exits(template, sample) if exits is None else exits
    blueprint = Blueprint(template, make, tuple(chosen), widen, dict(kinds or {}), pretrained, spread)
    backbone = WrappedBackbone(blueprint, tuple(sample.shape), inputs, outputs)
    if backbone.uncut_reason is not None:
        warnings.warn(uncut_sentence(backbone.name, backbone.uncut_reason), UncutWarning, stacklevel=2)
    return backbone


def _made(make: object) -> nn.Module:
    """Call a function without arguments and return the module that it makes; refuse anything else."""
    wanted = "module must be a torch.nn.Module, or a function without arguments that returns one"
    if not callable(make):
        raise ConfigError(f"{wanted}, got {type(make).__name__}")
    try:
        inspect.signature(make).bind()
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{wanted}, but it cannot be called without arguments: {error}; give lambda: make(…)"
        ) from None
    made = make()
    if not isinstance(made, nn.Module):
        raise ConfigError(f"{wanted}, but it returns {type(made).__name__}")
    return made


def uncut_sentence(name: str, reason: str) -> str:
    """Return a sentence that a module cannot be cut, and why."""
    return f"{name} stays in one piece up to its last used exit, so it cannot have adaptive exits: {reason}"


def widened(layer: nn.Module, num_inputs: int, name: str, spread: float = 0.0) -> WeightLayer:
    """Return a layer over N joined samples that computes the layer's output if all N are equal.

    Args:
        layer: A Linear or an ungrouped convolution over one sample.
        num_inputs: N.
        name: The name of the layer, for messages.
        spread: How much the weights differ between inputs; they always sum to those of the layer.

    Example:
        >>> layer, x = nn.Linear(3, 2), torch.randn(5, 3)
        >>> torch.allclose(widened(layer, 2, "0", 0.5)(torch.cat([x, x], dim=1)), layer(x), atol=1e-6)
        True
    """
    if not isinstance(layer, WeightLayer) or (not isinstance(layer, nn.Linear) and layer.groups != 1):
        raise ConfigError(
            f"the layer that takes several inputs must be a Linear or an ungrouped convolution, got {name}, {layer}: "
            "name another with widen, or use one input"
        )
    wide, weight = copy_of(layer), layer.weight.detach()
    signs = torch.randint(0, 2, (num_inputs, len(weight)), device="cpu").to(weight) * 2 - 1
    factors = 1 + spread * (signs - signs.mean(dim=0))  # (input, out), with mean 1 over inputs
    parts = [weight / num_inputs * factor.view(-1, *[1] * (weight.dim() - 1)) for factor in factors]
    wide.weight = nn.Parameter(torch.cat(parts, dim=1), requires_grad=layer.weight.requires_grad)
    if isinstance(wide, nn.Linear):
        wide.in_features *= num_inputs
    else:
        wide.in_channels *= num_inputs
    return wide


def _prepared_copy(module: nn.Module) -> nn.Module:
    """Return a copy to work with, whose layers compute the same numbers.

    No layer overwrites its input, which may be the features of an exit. torch's encoder layers call
    their layers one by one in evaluation, too, because methods put other layers in their place.
    """
    copied = copy_of(module)
    for item in copied.modules():
        if getattr(item, "inplace", False) is True:
            item.inplace = False  # type: ignore[assignment]
        if isinstance(item, nn.TransformerEncoderLayer):
            item.activation_relu_or_gelu = 0
    return copied


def _fixed_layers(module: nn.Module, calls: Sequence[Call]) -> frozenset[str]:
    """Return the names of layers that do not run as modules, or not on one row per sample."""
    rows = {call.name: call.num_rows for call in calls}
    layers = [name for name, item in module.named_modules() if isinstance(item, WeightLayer)]
    return frozenset(name for name in layers if rows.get(name) != SURVEYED)


def _check_first(calls: Sequence[Call], first: str, exit_name: str) -> None:
    """Refuse a first layer that does not run exactly once, or not first."""
    names = [call.name for call in calls]
    if names.count(first) != 1 or names.index(first) > names.index(exit_name):
        how = "runs later" if names.count(first) == 1 else f"runs {names.count(first)} times"
        raise ConfigError(f"the layer that takes the samples must run once, before the first exit, but {first!r} {how}")
    before = [
        call.name
        for call in calls[: names.index(first)]
        if call.name and not list(call.module.children()) and list(call.module.parameters())
    ]
    if before:
        raise ConfigError(
            f"the layer that takes several inputs must be the first one with weights, but {before[0]} runs before "
            f"{first}: use one input, or widen={before[0]!r} if it is a Linear or a convolution"
        )


def _check_widened(
    wide: nn.Module, narrow: nn.Module, shape: Shape, num_inputs: int, exits: Sequence[str], first: str
) -> None:
    """Refuse a module that computes other features from N equal joined samples than from one."""
    x = random_samples(narrow, shape, SURVEYED)
    joined = x.repeat(1, num_inputs, *[1] * (x.dim() - 2))
    with torch.no_grad():
        try:
            found = exit_features(wide.eval(), joined, exits)
        except (RuntimeError, ValueError, TypeError, AssertionError) as error:
            raise ConfigError(
                f"with {first} widened, the module must take {num_inputs} samples joined on channels, but it fails: "
                f"{first_line(error)}; let its forward take any number of channels, name another with widen, or use "
                "one input"
            ) from error
        wanted = exit_features(narrow.eval(), x, exits)
    if not all(torch.allclose(one, other, rtol=1e-3, atol=1e-4) for one, other in zip(found, wanted, strict=True)):
        raise ConfigError(
            f"with {first} widened, {num_inputs} equal samples joined on channels must give the features of one, but "
            "they do not: the channels of a sample must stay side by side up to this layer; name another with widen, "
            "or use one input"
        )
