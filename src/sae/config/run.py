"""Settings of a run: the only home of defaults.

A run is described by layers of plain mappings (what the data set suggests, a YAML file,
flags), merged into one frozen `RunConfig` before any work starts.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from sae.config.settings import Layer, Settings, merge, parse
from sae.core.errors import ConfigError

LARGEST = 64
"""Of widths, inputs, members, repetitions and threads: far above what is of use, far below what exhausts memory."""


class DataConfig(Settings):
    """Which data, and how training images are varied."""

    name: str = Field(description="a name of the catalogue, or the path of your own data")
    task: Literal["classification", "regression"] | None = Field(
        None, description="what to predict, where the data do not say: .npz files and tables"
    )
    target: str | None = Field(None, description="column of a table that is to be predicted")
    size: Literal[28, 64, 128, 224] | None = Field(None, description="side of the images, for sets of MedMNIST")
    split_seed: int = Field(
        0, ge=0, le=2**32 - 1, description="seed of the split into train, val and test, kept over run seeds"
    )
    crop: int = Field(0, ge=0, description="pixels of padding before a random crop to the old size; 0 is off")
    flip: bool = Field(False, description="mirror each image with probability one half")


class FcConfig(Settings):
    """Residual fully connected network."""

    name: Literal["fc"] = "fc"
    width: int = Field(1, ge=1, le=LARGEST, description="times 128 features")
    depth: int = Field(5, ge=1, le=5, description="residual blocks")


class VggConfig(Settings):
    """VGG without its large linear layers."""

    name: Literal["vgg"] = "vgg"
    width: int = Field(1, ge=1, le=LARGEST, description="times 4, 8, 16, 32, 32 channels")
    depth: int = Field(5, ge=1, le=5, description="stages")
    blocks: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (1, 1, 1, 1, 1), min_length=5, max_length=5, description="convolutions in each of the five stages"
    )


class ResnetConfig(Settings):
    """ResNet-34 for small images."""

    name: Literal["resnet"] = "resnet"
    width: int = Field(1, ge=1, le=1, description="fixed at 1")
    depth: int = Field(4, ge=1, le=4, description="stages")


class VitConfig(Settings):
    """Vision transformer with 4×4 patches."""

    name: Literal["vit"] = "vit"
    width: int = Field(1, ge=1, le=LARGEST, description="times 192 hidden features of the MLPs")
    depth: int = Field(5, ge=1, le=5, description="encoder layers")


BackboneConfig = FcConfig | VggConfig | ResnetConfig | VitConfig


class Schedule(Settings):
    """A value that moves linearly over the training steps."""

    start: float
    end: float

    def at(self, progress: float) -> float:
        """The value at a progress in [0, 1].

        Example:
            >>> Schedule(start=1.0, end=0.0).at(0.25)
            0.75
        """
        return self.start * (1 - progress) + self.end * progress  # exact at both ends


class UnitSchedule(Schedule):
    """A schedule of fractions, in [0, 1]."""

    start: float = Field(ge=0, le=1)
    end: float = Field(ge=0, le=1)


class TemperatureSchedule(Schedule):
    """A schedule of temperatures, in [1e-3, 1]."""

    start: float = Field(ge=1e-3, le=1)
    end: float = Field(ge=1e-3, le=1)


class SaeConfig(Settings):
    """Single architecture ensemble: N inputs, up to K exits for each."""

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


class StandardConfig(Settings):
    """One plain network: a deep ensemble of one."""

    name: Literal["standard"] = "standard"


class EnsembleConfig(Settings):
    """Deep ensemble: independent networks whose probabilities are averaged."""

    name: Literal["ensemble"] = "ensemble"
    members: int = Field(4, ge=1, le=LARGEST, description="M, networks of the ensemble")


class McDropoutConfig(Settings):
    """Dropout that stays on at prediction."""

    name: Literal["mc_dropout"] = "mc_dropout"
    rate: float = Field(0.1, ge=0, le=1, description="probability with which a number is dropped")
    samples: int = Field(4, ge=1, le=LARGEST, description="draws that are averaged at prediction")


class BatchEnsembleConfig(Settings):
    """Members that share their weights but for rank-1 factors and biases."""

    name: Literal["batch_ensemble"] = "batch_ensemble"
    members: int = Field(4, ge=1, le=LARGEST, description="M, sets of factors and biases")


MethodConfig = SaeConfig | StandardConfig | EnsembleConfig | McDropoutConfig | BatchEnsembleConfig


class TrainConfig(Settings):
    """How a run is trained; the paper's settings."""

    epochs: int = Field(50, ge=1)
    batch_size: int = Field(64, ge=1)
    lr: float = Field(3e-4, gt=0, description="Adam's step size at the start; falls to 0 by a cosine")
    weight_decay: float = Field(1e-5, ge=0, description="decoupled, on all but the exit logits")
    clip_norm: float = Field(
        5.0, gt=0, description="largest gradient norm, of each network's weights and of exit logits apart"
    )
    device: str = Field("cpu", description="cpu, cuda, cuda:1, …")
    precision: Literal["float32", "bfloat16", "float16"] = Field("float32", description="of the forward pass")
    threads: int = Field(1, ge=1, le=LARGEST, description="CPU threads of torch; part of what fixes a run's numbers")


class NetworkConfig(Settings):
    """What is built, whatever it is trained on."""

    backbone: BackboneConfig = Field(discriminator="name")
    method: MethodConfig = Field(SaeConfig(), discriminator="name")

    @model_validator(mode="before")
    @classmethod
    def _default_exits_fit_the_depth(cls, values: Any) -> Any:
        """K is 2 unless said otherwise, or 1 on a backbone of one stage."""
        method, backbone = values.get("method", {}), values.get("backbone", {})
        if method.get("name", "sae") == "sae" and "exits" not in method and backbone.get("depth") == 1:
            return {**values, "method": {"name": "sae", **method, "exits": 1}}
        return values

    @model_validator(mode="after")
    def _exits_fit_the_depth(self) -> Self:
        check_exits(self.method, self.backbone)
        return self


class RunConfig(NetworkConfig):
    """Everything that a run's numbers depend on."""

    data: DataConfig
    train: TrainConfig = TrainConfig()
    seed: int = Field(0, ge=0)


def check_exits(method: MethodConfig, backbone: BackboneConfig) -> None:
    """An input cannot keep more exits than the backbone has stages."""
    if isinstance(method, SaeConfig) and method.exits > backbone.depth:
        raise ConfigError(
            f"method.exits must be in [1, {backbone.depth}], got {method.exits}: "
            f"{backbone.name} has {backbone.depth} {'stage' if backbone.depth == 1 else 'stages'}"
        )


BATCH_ENSEMBLE_SIZES = {64: 72, 128: 144}
"""Batches that 2, 3, 4 and more members share evenly, in place of the paper's usual ones."""


def suit_method(suggested: Layer, given: Layer) -> dict[str, Any]:
    """What a data set suggests, with the batch size that suits the method that is given.

    BatchEnsemble deals each batch to its members and so takes 72 samples where other methods
    take 64, and 144 where they take 128.

    Example:
        >>> suit_method({"data": {"name": "digits"}}, {"method": "batch_ensemble"})["train"]
        {'batch_size': 72}
    """
    method = merge({"method": {}}, given)["method"]
    if not isinstance(method, dict) or method.get("name") != "batch_ensemble":
        return dict(suggested)
    usual = suggested.get("train", {}).get("batch_size", TrainConfig().batch_size)
    return merge(suggested, {"train": {"batch_size": BATCH_ENSEMBLE_SIZES.get(usual, usual)}})


NAMED = ("data", "backbone", "method")
"""Sections that may be given by their name alone."""


def parse_run(*layers: Layer) -> RunConfig:
    """Merge layers of settings, the later over the earlier, and check the result.

    Nothing else is added: `sae.resolve` also lays them over what the data set suggests.

    Example:
        >>> base = {"data": {"name": "digits"}, "backbone": {"name": "fc"}}
        >>> parse_run(base, {"method": {"name": "sae", "inputs": 3}}).method.inputs
        3
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = merge(merged, layer)
    named = {key: {"name": value} for key, value in merged.items() if key in NAMED and isinstance(value, str)}
    return parse(RunConfig, {**merged, **named})
