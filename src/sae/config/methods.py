"""The methods: their settings, each with its entry in the registry.

To add a method: a class of settings with `@register_method`, here or in another package, and a
builder.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from sae.config.backbones import BACKBONES, BackboneSource
from sae.config.method_registry import (
    METHODS,
    Kind,
    MethodEntry,
    MethodSettings,
    TeacherMatch,
    TemperatureSchedule,
    UnitSchedule,
    all_kinds,
    kinds_with_exits,
    register_method,
    rivals,
)
from sae.config.settings import LARGEST, later
from sae.core.errors import ConfigError
from sae.core.wording import count

__all__ = [
    "METHODS",
    "BatchEnsembleConfig",
    "EnsembleConfig",
    "McDropoutConfig",
    "MethodEntry",
    "MethodSettings",
    "PackedConfig",
    "SaeConfig",
    "StandardConfig",
    "TeacherMatch",
    "all_kinds",
    "kinds_with_exits",
    "register_method",
    "rivals",
]

DEFAULT_METHOD = "sae"

TrimWeights = Literal["greedy", "em"]
"""How `sae trim` weights members: by how often each was chosen, or by EM."""


def _matches(num_members: int) -> tuple[TeacherMatch, ...]:
    """Return how a method with this many fixed members can learn from a teacher."""
    return ("mean", "members") if num_members > 1 else ("mean",)


def check_streams(num_streams: int, backbone: BackboneSource, setting: str) -> None:
    """Refuse several streams on a backbone whose stages cannot work in groups."""
    if num_streams > 1 and not backbone.can_stream:
        known = ", ".join(entry.name for entry in BACKBONES if entry.settings.can_stream)
        raise ConfigError(
            f"{setting} must be 1 on {backbone.name}, whose layers mix all features, got {num_streams}: "
            f"use one of the backbones {known}"
        )


ORANGE = "#C55A11"


@register_method(
    "sae.methods.sae:Sae",
    kinds=(
        Kind("I/B", "SAE: I/B", "one network with several inputs and some of its exits", ORANGE, "plus"),
        Kind("EE", "SAE: EE", "one network with early exits", ORANGE, "octagon"),
        Kind("MIMMO", "SAE: MIMMO", "one network with several inputs and all exits", ORANGE, "pentagon"),
        Kind("MIMO", "SAE: MIMO", "one network with several inputs", ORANGE, "hexagon"),
        Kind("SE", "SAE: SE", "one network", ORANGE, "times"),
        Kind("STREAMS", "SAE: streams", "one network in several streams", ORANGE, "star"),
    ),
    space={
        "inputs": {"int": [1, 4]},
        "exits": {"int": [1, "depth"]},
        "repeat_fraction": {"start": {"float": [0, 1]}, "end": {"float": [0, 1]}},
        "kl_weight": {"start": {"log": [1e-5, 1]}, "end": {"log": [1e-5, 1]}},
        "temperature": {"start": {"log": [1e-3, 1]}, "end": {"log": [1e-3, 1]}},
    },
    small={"inputs": 2, "exits": 2},
    influences={
        "i start": "method.repeat_fraction.start",
        "i end": "method.repeat_fraction.end",
        "α start": "method.kl_weight.start",
        "α end": "method.kl_weight.end",
        "T start": "method.temperature.start",
        "T end": "method.temperature.end",
        "N": "method.inputs",
        "K": "method.exits",
        "W": "backbone.width",
    },
)
class SaeConfig(MethodSettings):
    """Single architecture ensemble: N inputs, up to K exits for each."""

    has_exits: ClassVar[bool] = True
    can_compile: ClassVar[bool] = True

    name: Literal["sae"] = "sae"
    inputs: int = Field(2, ge=1, le=LARGEST, description="N, inputs per pass")
    exits: int = Field(2, ge=1, description="K, exits kept per input")
    temperature: TemperatureSchedule = Field(
        TemperatureSchedule(start=1.0, end=0.1), description="T, sharpness of the exit distribution"
    )
    kl_weight: UnitSchedule = Field(
        UnitSchedule(start=1e-2, end=1e-2), description="α, pull of the exit distribution towards uniform"
    )
    repeat_fraction: UnitSchedule = Field(
        UnitSchedule(start=0.0, end=0.5),
        description="i, share of a batch where all inputs see the same sample",
    )
    batch_repetition: int = Field(
        2, ge=1, le=LARGEST, description="R, how often a batch is repeated; counts as 1 if inputs is 1"
    )
    streams: int = later(
        1,
        ge=1,
        le=LARGEST,
        description="G, groups of features that do not mix; 4 at width 2 cost about as much as 1 at width 1",
    )
    shared_head: bool = later(False, description="one common head for all exits instead of a head for each")
    learn_exits: bool = later(
        True, description="learn which exits to use; false: all count the same, and each input keeps the K deepest"
    )
    noise_on: Literal["logits", "tempered"] = later(
        "logits", description="what the noise of a drawn exit is added to: the logits, or the logits over T"
    )
    scale_data_fit: bool = later(
        False, description="the data term is that of the whole training split, |D|/B times the sum over a batch"
    )
    cost_weight: float = later(
        0.0, ge=0, description="λ, weight in the loss of the expected FLOPs, as a share of those with all exits"
    )
    exit_gradient: float = later(
        1.0,
        ge=0,
        le=1,
        description="share of an early exit's gradient that reaches the stages; 0: only the last exit trains them",
    )
    trim: Mapping[str, float] | None = later(
        None, description="limits on costs within which `sae trim` chose the members after training; it sets them"
    )
    trim_weights: TrimWeights = later("greedy", description="how `sae trim` weighed these members; it sets this")

    @classmethod
    def defaults_at(cls, depth: object) -> dict[str, object]:
        """Return K = 1 for a backbone of one stage."""
        return {"exits": 1} if depth == 1 else {}

    @property
    def trained_exits(self) -> int:
        """K."""
        return self.exits

    @property
    def can_choose_exits(self) -> bool:
        """Whether K′ can be chosen; no K′ describes the members that `sae trim` chose."""
        return self.trim is None

    @property
    def num_inputs(self) -> int:
        """N."""
        return self.inputs

    @property
    def num_slots(self) -> int:
        """G·N: each stream predicts for all inputs."""
        return self.streams * self.inputs

    def teacher_matches(self, depth: int) -> tuple[TeacherMatch, ...]:
        """Return both ways, where there are several members."""
        return _matches(self.num_slots * depth)

    def kind(self, depth: int) -> str:
        """Return SE, EE, MIMO, MIMMO or I/B (in between), the classes of the paper, or STREAMS for several streams."""
        if self.streams > 1:
            return "STREAMS"
        if self.inputs == 1:
            return "SE" if self.exits == 1 else "EE"
        if self.exits == 1:
            return "MIMO"
        return "MIMMO" if self.exits == depth else "I/B"

    def called_using(self, num_exits: int, depth: int) -> str:
        """Return the kind of a network that was trained for as many exits as are in use."""
        return self.model_copy(update={"exits": num_exits}).kind(depth)

    def summary(self) -> list[str]:
        """Return N and K as trained, settings that the paper does not have, and the limits of `sae trim`."""
        changed = {
            f"G={self.streams}": self.streams > 1,
            f"λ={self.cost_weight:.2g}": self.cost_weight > 0,
            f"exit gradient={self.exit_gradient:.2g}": self.exit_gradient < 1,
            "shared head": self.shared_head,
            "fixed exits": not self.learn_exits,
            "noise on l/T": self.noise_on == "tempered",
            "scaled data fit": self.scale_data_fit,
            " ".join(["trim", *(f"{name}≤{bound:g}" for name, bound in (self.trim or {}).items())]): self.trim
            is not None,
            self.trim_weights: self.trim_weights != "greedy",
        }
        return [f"N={self.inputs}", f"K={self.exits}", *(word for word, is_so in changed.items() if is_so)]

    def grid_cell(self) -> tuple[int, int] | None:
        """Return N and K; several streams are another network."""
        return (self.inputs, self.exits) if self.streams == 1 else None

    def check(self, backbone: BackboneSource) -> None:
        """Refuse more exits than stages, a cost weight without learnt exits, and streams that cannot work."""
        check_streams(self.streams, backbone, "method.streams")
        if self.streams > 1 and (self.shared_head or self.trim is not None):
            raise ConfigError(
                f"method.streams must be 1 with method.shared_head or method.trim, got {self.streams}: "
                f"leave one of them out"
            )
        if self.cost_weight and not self.learn_exits:
            raise ConfigError(
                f"method.cost_weight must be 0 where method.learn_exits is false, got {self.cost_weight}: "
                "there are no learnt exits that it could make cheaper"
            )
        if self.trim is None and self.trim_weights != "greedy":
            raise ConfigError(
                f"method.trim_weights must be greedy where method.trim is not set, got {self.trim_weights}: "
                f"train without it, then use `sae trim --weights {self.trim_weights}`"
            )
        if self.exits > backbone.depth:
            raise ConfigError(
                f"method.exits must be in [1, {backbone.depth}], got {self.exits}: "
                f"{backbone.name} has {count(backbone.depth, 'stage')}"
            )

    def cheapest(self) -> MethodSettings:
        """Return the settings with one exit; settings of training alone do not change the cost."""
        return SaeConfig(inputs=self.inputs, exits=1, shared_head=self.shared_head, streams=self.streams)


STANDARD = Kind("standard", "Standard", "a standard network", "#595959", "circle")


@register_method(
    "sae.methods.deep_ensemble:DeepEnsemble",
    kinds=(STANDARD,),
    rival="standard network",
)
class StandardConfig(MethodSettings):
    """One plain network: a deep ensemble of one."""

    members_from: ClassVar[str | None] = "ensemble"
    can_compile: ClassVar[bool] = True

    name: Literal["standard"] = "standard"

    def teacher_matches(self, depth: int) -> tuple[TeacherMatch, ...]:
        """Return the mean: there is one member."""
        del depth
        return _matches(1)


@register_method(
    "sae.methods.deep_ensemble:DeepEnsemble",
    kinds=(Kind("ensemble", "Ensemble", "a deep ensemble", "#2F528F", "square"),),
    space={"members": {"int": [1, 4]}},
    small={"members": 2},
    rival="deep ensemble",
)
class EnsembleConfig(MethodSettings):
    """Deep ensemble: independent networks whose probabilities are averaged."""

    member_word: ClassVar[str] = "network"
    members_from: ClassVar[str | None] = "ensemble"
    can_compile: ClassVar[bool] = True

    name: Literal["ensemble"] = "ensemble"
    members: int = Field(4, ge=1, le=LARGEST, description="M, networks of the ensemble")

    @property
    def num_members(self) -> int:
        """M."""
        return self.members

    def teacher_matches(self, depth: int) -> tuple[TeacherMatch, ...]:
        """Return both ways, where there are several networks."""
        del depth
        return _matches(self.members)

    def called(self, depth: int) -> str:
        """Return the kind of a standard network for an ensemble of one."""
        return self.kind(depth) if self.members > 1 else STANDARD.key

    def summary(self) -> list[str]:
        """Return M."""
        return [f"M={self.members}"]


@register_method(
    "sae.methods.mc_dropout:McDropout",
    kinds=(Kind("mc_dropout", "MC dropout", "MC dropout", "#00BFBF", "triangle-up"),),
    space={"rate": {"float": [0, 1]}},
    small={"samples": 3},
)
class McDropoutConfig(MethodSettings):
    """Dropout that stays on at prediction."""

    member_word: ClassVar[str] = "pass"

    name: Literal["mc_dropout"] = "mc_dropout"
    rate: float = Field(0.1, ge=0, le=1, description="probability with which a number is dropped")
    samples: int = Field(4, ge=1, le=LARGEST, description="draws that are averaged at prediction")

    def teacher_matches(self, depth: int) -> tuple[TeacherMatch, ...]:
        """Return the mean: a draw of masks is new in every step."""
        del depth
        return _matches(1)

    def summary(self) -> list[str]:
        """Return the rate."""
        return [f"rate={self.rate:.2g}"]


@register_method(
    "sae.methods.batch_ensemble:BatchEnsemble",
    kinds=(Kind("batch_ensemble", "BatchEnsemble", "BatchEnsemble", "#BF00BF", "triangle-left"),),
    space={"members": {"int": [1, 4]}},
    small={"members": 3},
    batch_sizes={32: 36, 64: 72, 128: 144},  # which 2, 3 or 4 members share evenly
)
class BatchEnsembleConfig(MethodSettings):
    """Members that share their weights except for rank-1 factors and biases."""

    can_compile: ClassVar[bool] = True

    name: Literal["batch_ensemble"] = "batch_ensemble"
    members: int = Field(4, ge=1, le=LARGEST, description="M, sets of factors and biases")

    def teacher_matches(self, depth: int) -> tuple[TeacherMatch, ...]:
        """Return both ways, where there are several members."""
        del depth
        return _matches(self.members)

    def summary(self) -> list[str]:
        """Return M."""
        return [f"M={self.members}"]


@register_method(
    "sae.methods.packed:Packed",
    kinds=(Kind("packed", "Packed", "a packed ensemble", "#548235", "diamond"),),
    space={"members": {"choice": [2, 4]}},  # both divide the features of every backbone
    small={"members": 2},
)
class PackedConfig(MethodSettings):
    """Packed ensemble: one network in streams that share only the first layer."""

    member_word: ClassVar[str] = "stream"
    can_compile: ClassVar[bool] = True

    name: Literal["packed"] = "packed"
    members: int = Field(
        4, ge=1, le=LARGEST, description="M, streams of features; 4 at width 2 cost about as much as 1 at width 1"
    )

    def teacher_matches(self, depth: int) -> tuple[TeacherMatch, ...]:
        """Return both ways, where there are several streams."""
        del depth
        return _matches(self.members)

    def check(self, backbone: BackboneSource) -> None:
        """Refuse several streams where layers mix all features."""
        check_streams(self.members, backbone, "method.members")

    def summary(self) -> list[str]:
        """Return M."""
        return [f"M={self.members}"]
