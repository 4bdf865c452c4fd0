"""Settings of a run, with their defaults.

A run is described by layers of plain mappings (suggestions of the data set, a YAML file,
flags), merged into one frozen `RunConfig` before any work starts.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from sae.config.backbones import BACKBONES, BackboneSettings
from sae.config.fine_tuning import Freeze, GivenNormalisation
from sae.config.method_registry import Kind
from sae.config.methods import DEFAULT_METHOD, METHODS, MethodSettings, SaeConfig, TeacherMatch, all_kinds
from sae.config.settings import LARGEST, Layer, Settings, Values, later, merge, parse, section_name
from sae.core.errors import ConfigError
from sae.core.task import SampleKind

Fit = Literal["stretch", "pad", "crop"]
"""How an image of other proportions becomes one of a given height and width; see `sae.data.images`."""
LARGEST_SIDE = 4096
"""Largest width and height of an image for a network, in pixels."""
Side = Annotated[int, Field(ge=1, le=LARGEST_SIDE)]


def height_and_width(given: object) -> object:
    """Read the side of a square, or height and width, as a flag has them: `64` or `48x64`.

    Example:
        >>> height_and_width("64"), height_and_width("48x64"), height_and_width([48, 64])
        ((64, 64), (48, 64), [48, 64])
    """
    sides = str(given).lower().replace("×", "x").split("x") if isinstance(given, int | str) else None
    if sides is None:
        return given
    if isinstance(given, bool) or len(sides) > 2 or not all(side.strip().isdecimal() for side in sides):
        raise ValueError(f"must be the side of a square, or HEIGHTxWIDTH, in pixels, got {given!r}")
    return int(sides[0]), int(sides[-1])


ValToo = Literal["none", "first", "second", "all"]
"""Validation samples that are trained on, too: none, one of two halves, while the other validates, or all."""


class DataConfig(Settings):
    """The data, and how training samples are varied."""

    name: str = Field(description="a name of the catalogue, or the path of your own data")
    task: Literal["classification", "regression", "ordinal", "counts"] | None = Field(
        None,
        description="what to predict, where the data do not say: .npz files and tables; ordinal: classes in an order; "
        "counts: whole numbers from 0",
    )
    target: str | tuple[str, ...] | None = Field(
        None, description="column of a table that is to be predicted, or several: numbers, or labels that are 0 or 1"
    )
    order: tuple[str, ...] = later((), description="classes of an ordinal target, the lowest first, if they are texts")
    kind: SampleKind | None = later(
        None, description="what a sample is, where the data do not say: signals, for .npz files and tables"
    )
    ignore: tuple[str, ...] = later((), description="columns of a table that are not used, such as identifiers")
    missing: tuple[str, ...] = later((), description="texts of a table that stand for a missing value, such as -999")
    categories: tuple[str, ...] = later((), description="columns of a table that hold categories, though in numbers")
    dates: tuple[str, ...] = later(
        (), description="columns of a table that hold dates; ISO dates are recognised anyway"
    )
    group: str | None = later(None, description="column of a table whose groups are never split, such as patients")
    time: str | None = later(None, description="column of a table to split by: train earliest, test latest")
    size: Literal[28, 64, 128, 224] | None = Field(None, description="side of the images, for sets of MedMNIST")
    resize: Annotated[tuple[Side, Side] | None, BeforeValidator(height_and_width)] = later(
        None, description="height and width that your own images are resized to, e.g. 64 or 48x64 (48 high, 64 wide)"
    )
    fit: Fit = later("stretch", description="how an image of other proportions is resized: stretch, pad or crop")
    split_seed: int = Field(
        0, ge=0, le=2**32 - 1, description="seed of the split into train, val and test, kept over run seeds"
    )
    val_fraction: float | None = later(
        None,
        gt=0,
        lt=1,
        description="share of the official training split that validation is drawn from, instead of the official one",
    )
    train_size: int | None = later(
        None,
        ge=1,
        description="number of training samples to use, chosen by split_seed with the shares of the classes; all by "
        "default; normalisation and encodings still come from all",
    )
    crop: int = Field(
        0,
        ge=0,
        description="pixels, or time steps of a signal, of padding before a random crop to the old size; 0 is off",
    )
    normalisation: GivenNormalisation = later(
        "own",
        description="means and deviations of the channels of images: those of the training images, of ImageNet, or "
        "[[means], [deviations]] of pixels from 0 to 1",
    )
    standardise: Literal["set", "image"] = later(
        "set", description="image: after the data set's mean and deviation, each image by its own mean and deviation"
    )
    flip: bool = Field(False, description="mirror each image with probability one half")
    jitter: float = later(
        0.0, ge=0, allow_inf_nan=False, description="noise added to each standardised value of a signal; 0 is off"
    )
    scale: float = later(
        0.0, ge=0, allow_inf_nan=False, description="spread of the random factor of each channel of a signal; 0 is off"
    )

    @property
    def targets(self) -> tuple[str, ...]:
        """The columns to predict."""
        return (self.target,) if isinstance(self.target, str) else self.target or ()

    @property
    def unit(self) -> str | None:
        """The column whose unit errors have; None for several, which are measured in their deviations."""
        return self.target if isinstance(self.target, str) else None

    @property
    def has_classes(self) -> bool:
        """Whether classes are predicted, one of which is right."""
        return self.task in ("classification", "ordinal") and not isinstance(self.target, tuple)

    @property
    def versions(self) -> int | None:
        """The number of versions of a sample that training shows: itself and its mirror image; None if any number."""
        return None if self.crop or self.jitter or self.scale else 1 + self.flip


class TrainConfig(Settings):
    """Settings of training; the defaults are the paper's."""

    epochs: int = Field(50, ge=1)
    batch_size: int = Field(64, ge=1)
    stop_at: int | None = later(None, ge=1, description="train only this many of the epochs; schedules keep their end")
    val_too: ValToo = later(
        "none",
        description="validation samples that are trained on, too: none, their first or second half, while the other "
        "half validates, or all",
    )
    lr: float = Field(3e-4, gt=0, description="Adam's step size at the start; falls to 0 by a cosine")
    weight_decay: float = Field(1e-5, ge=0, description="decoupled, of everything except the exit logits")
    clip_norm: float = Field(
        5.0, gt=0, description="largest gradient norm; exit logits, and each network's weights, are clipped separately"
    )
    patience: int = later(
        0,
        ge=0,
        description="stop after this many epochs without a better validation NLL, and keep the best epoch; 0 is off",
    )
    keep: Literal["last", "best"] = later(
        "last", description="the epoch whose weights are kept: the last or, as always with patience, the best"
    )
    keep_by: Literal["nll", "nll_scaled"] = later(
        "nll", description="validation loss that the best epoch minimises: nll, or nll after temperature scaling"
    )
    ema: float = later(
        0.0,
        ge=0,
        lt=1,
        description="decay of a moving average of the weights, which predicts instead of the last weights; 0 is off",
    )
    class_weights: Literal["none", "balanced"] = later(
        "none", description="balanced: every class counts the same in the loss, however rare it is"
    )
    freeze: Freeze = later(
        0,
        description="parts of the backbone that do not train: how many (stem, then stages), or the name of the last",
    )
    frozen_batch_norm: bool = later(
        False, description="keep BatchNorm of the backbone in evaluation mode, with the statistics that it has"
    )
    device: str = Field("cpu", description="cpu, cuda, cuda:1, …")
    precision: Literal["float32", "bfloat16", "float16"] = Field(
        "float32", description="number format of the forward pass"
    )
    threads: int = Field(1, ge=1, le=LARGEST, description="CPU threads of torch; part of what fixes a run's numbers")
    compile: bool = later(False, description="run training steps through torch.compile, which needs a C++ compiler")

    @property
    def last_epoch(self) -> int:
        """The number of the last epoch, unless training stops early."""
        return self.stop_at or self.epochs

    @model_validator(mode="after")
    def _the_end_is_known(self) -> Self:
        if self.last_epoch > self.epochs:
            raise ConfigError(f"train.stop_at must be at most train.epochs, {self.epochs}, got {self.stop_at}")
        if self.val_too == "all" and self.keeps_best:
            raise ConfigError(
                "train.val_too must not be all if validation samples choose the epoch: set train.patience=0 and "
                "train.keep=last"
            )
        return self

    @property
    def keeps_best(self) -> bool:
        """Whether the weights of the best epoch are kept."""
        return self.keep == "best" or self.patience > 0

    @model_validator(mode="after")
    def _keep_by_needs_the_best(self) -> Self:
        if self.keep_by != "nll" and not self.keeps_best:
            raise ValueError(
                f"must keep the best epoch for keep_by={self.keep_by}, got keep=last and patience=0: "
                f"set train.keep=best"
            )
        return self


class TeacherConfig(Settings):
    """A trained run whose predictions a network learns from, beside the targets."""

    run: str = Field(description="folder of a finished run on the same data, usually a deep ensemble")
    weight: float = Field(0.9, ge=0, le=1, description="λ, share of the teacher in the loss; the targets have the rest")
    temperature: float = Field(2.0, gt=0, description="τ, softens the classes of teacher and student")
    match: TeacherMatch = Field(
        "mean", description="what a member learns from: the mean of the teacher's members, or one of its members"
    )
    perturb: float = Field(
        0.0,
        ge=0,
        description="size of the input change that makes teachers disagree, in 1/255 of a pixel's range",
    )

    @classmethod
    def default_temperature(cls) -> float:
        """Return τ where none is given."""
        default: float = cls.model_fields["temperature"].default
        return default


class NetworkConfig(Settings):
    """Settings of the network, without its data; names decide which registered settings apply."""

    backbone: Annotated[SerializeAsAny[BackboneSettings], BeforeValidator(BackboneSettings.choose_class)]
    method: Annotated[SerializeAsAny[MethodSettings], BeforeValidator(MethodSettings.choose_class)] = SaeConfig()

    @model_validator(mode="before")
    @classmethod
    def _defaults_fit_the_depth(cls, values: Layer) -> Layer:
        """Lay the method's settings over its defaults on this backbone and its depth."""
        method, backbone = values.get("method", {"name": DEFAULT_METHOD}), values.get("backbone")
        if not isinstance(method, Mapping) or not isinstance(backbone, Mapping):
            return values
        sizes, settings = BackboneSettings.class_of(backbone.get("name")), MethodSettings.class_of(method.get("name"))
        own = {key: value for key, value in sizes.method_defaults_of(backbone).items() if key in settings.model_fields}
        defaults = {**settings.defaults_at(sizes.depth_of(backbone)), **own}
        return {**values, "method": {**defaults, **method}} if defaults else values

    @model_validator(mode="after")
    def _method_fits_the_backbone(self) -> Self:
        self.method.check(self.backbone)
        return self

    @property
    def kind(self) -> str:
        """The kind it is grouped with: SE, EE, MIMO, … for an SAE, else the method's name."""
        kind, known = self.method.kind(self.backbone.depth), [item.key for item in METHODS.get(self.method.name).kinds]
        assert kind in known, f"{type(self.method).__name__}.kind must return one of {', '.join(known)}, got {kind!r}"
        return kind

    @property
    def called(self) -> Kind:
        """The kind to name it by: an ensemble of one is a standard network."""
        return all_kinds()[self.method.called(self.backbone.depth)]

    @property
    def summary(self) -> str:
        """The settings that distinguish it from other configurations, `N=2 K=3 W=4`.

        A method that chooses among exits uses all stages of its backbone unless the summary says otherwise.
        """
        with_depth = not (self.method.has_exits and self.backbone.is_whole)
        return " ".join([*self.method.summary(), *self.backbone.summary(with_depth=with_depth)])


class RunConfig(NetworkConfig):
    """Everything that a run's numbers depend on."""

    data: DataConfig
    train: TrainConfig = TrainConfig()
    seed: int = Field(0, ge=0)
    teacher: TeacherConfig | None = later(None, description="a trained run to learn from")

    @model_validator(mode="after")
    def _method_can_learn_from_the_teacher(self) -> Self:
        known = self.method.teacher_matches(self.backbone.depth)
        if self.teacher is not None and self.teacher.match not in known:
            raise ConfigError(
                f"teacher.match must be one of {', '.join(known)} for {self.method.name}, got {self.teacher.match}"
                if known
                else f"{self.method.name} cannot learn from a teacher: leave out --teacher, or use another method"
            )
        return self

    @model_validator(mode="after")
    def _method_can_be_compiled(self) -> Self:
        if self.train.compile and not self.method.can_compile:
            raise ConfigError(
                f"train.compile must be false for {self.method.name}, got true: its training step cannot be compiled"
            )
        return self

    @property
    def summary(self) -> str:
        """The settings that distinguish it from other configurations, `N=2 K=3 W=4`, and whether it was distilled."""
        return super().summary + (" distilled" if self.teacher is not None else "")

    @property
    def over_seeds(self) -> "RunConfig":
        """The same settings without what differs between seeds: the seed, and the folder of the teacher."""
        teacher = self.teacher and self.teacher.model_copy(update={"run": ""})
        return self.model_copy(update={"seed": 0, "teacher": teacher})


def distinct_summaries(configs: Sequence[RunConfig]) -> list[str]:
    """Return the summary of each configuration, with the learning rate where they do not share it.

    Example:
        >>> rates = (0.001, 0.003)
        >>> same = {"data": {"name": "digits"}, "backbone": {"name": "fc"}, "method": {"name": "standard"}}
        >>> distinct_summaries([RunConfig.model_validate({**same, "train": {"lr": rate}}) for rate in rates])
        ['W=1 D=5 lr=0.001', 'W=1 D=5 lr=0.003']
    """
    is_shared = len({config.train.lr for config in configs}) < 2
    return [config.summary if is_shared else f"{config.summary} lr={config.train.lr:g}" for config in configs]


def suit_method(suggested: Layer, given: Layer) -> Values:
    """Return the suggestions of a data set with the batch size that suits the given method.

    BatchEnsemble deals each batch to its members and so takes 72 samples where other methods
    take 64, and 144 where they take 128. The needs of pretrained weights override suggestions for the method.

    Example:
        >>> suit_method({"data": {"name": "digits"}}, {"method": "batch_ensemble"})["train"]
        {'batch_size': 72}
    """
    method = merge({"method": {}}, given)["method"]
    name = method.get("name") if isinstance(method, Mapping) else None
    sizes = METHODS.get(name).batch_sizes if name in METHODS else {}
    usual = suggested.get("train", {}).get("batch_size", TrainConfig().batch_size)
    backbone = merge({"backbone": {}}, given)["backbone"]
    if isinstance(backbone, Mapping) and backbone.get("name") in BACKBONES and "method" in suggested:
        needs = BackboneSettings.class_of(backbone.get("name")).method_defaults_of(backbone)
        kept = {key: value for key, value in suggested["method"].items() if key not in needs}
        suggested = {**suggested, "method": kept}
    return merge(suggested, {"train": {"batch_size": sizes[usual]}} if usual in sizes else {})


def data_name(given: Layer) -> str:
    """Return the name of the data in a run's settings."""
    name = section_name(given.get("data"))
    if not isinstance(name, str):
        raise ConfigError("data.name must be set: give --data NAME, or data.name in the settings")
    return name


def data_kind(given: Layer) -> SampleKind | None:
    """Return the kind of samples in a run's settings, or None; a wrong value is refused later."""
    section = given.get("data")
    return as_kind(section.get("kind")) if isinstance(section, Mapping) else None


def as_kind(given: object) -> SampleKind | None:
    """Return the kind of samples of this name, or None if there is none."""
    return next((kind for kind in SampleKind if kind == given), None)


def data_side(given: Layer) -> int | None:
    """Return the shorter side that a run's settings resize images to, or None; a wrong value is refused later."""
    section = given.get("data")
    try:
        sides = height_and_width(section.get("resize")) if isinstance(section, Mapping) else None
    except ValueError:
        return None
    return min((side for side in sides if isinstance(side, int)), default=None) if isinstance(sides, Sequence) else None


def data_train_size(given: Layer) -> int | None:
    """Return the number of training samples in a run's settings, or None; a wrong value is refused later."""
    section = given.get("data")
    number = section.get("train_size") if isinstance(section, Mapping) else None
    return number if isinstance(number, int) and number > 0 else None


def lay_over(suggested: Layer, given: Layer) -> RunConfig:
    """Return the given settings of a run over the suggestions of its data set that suit the method."""
    return parse_run({"method": {"name": DEFAULT_METHOD}}, suit_method(suggested, given), given)


NAMED = ("data", "backbone", "method")
"""Sections that may be given by their name alone."""


def parse_run(*layers: Layer) -> RunConfig:
    """Merge layers of settings, later ones over earlier ones, and check the result.

    Suggestions of the data set are not added; `sae.resolve` adds them.

    Example:
        >>> base = {"data": {"name": "digits"}, "backbone": {"name": "fc"}}
        >>> parse_run(base, {"method": {"name": "sae", "inputs": 3}}).method.inputs
        3
    """
    merged: Values = {}
    for layer in layers:
        merged = merge(merged, layer)
    named = {key: {"name": value} for key, value in merged.items() if key in NAMED and isinstance(value, str)}
    return parse(RunConfig, {**merged, **named})
