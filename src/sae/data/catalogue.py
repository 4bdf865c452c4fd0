"""Data sets by name or path, and the settings each suggests. To add one, add an entry to `CATALOGUE`.

Cheap to import: a reader is imported only when its data set is read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sae.config.backbones import suit_backbone
from sae.config.run import (
    DataConfig,
    RunConfig,
    data_kind,
    data_name,
    data_side,
    data_train_size,
    lay_over,
)
from sae.config.settings import Layer, Values, merge, section_name
from sae.core.errors import ConfigError, DataError, did_you_mean
from sae.core.task import SampleKind
from sae.data import published
from sae.data.defaults import count_folder, count_npz, count_signals, count_table, suggest_training
from sae.data.locations import PublishedFile, find_own, is_present

if TYPE_CHECKING:
    from sae.data.dataset import Dataset, Depth, Known, Samples

OWN_SUFFIXES = (".npz", ".csv", ".parquet", ".zip")
"""Suffixes of files that may be the user's own data; a folder may be, too."""
TABLE_SETTINGS = ("target", "order", "ignore", "missing", "categories", "dates", "group", "time")
"""Settings that only the user's own tables take."""
ROW_SETTINGS = ("target", "order", "ignore", "group", "time")
"""The ones that a table of signals takes, too."""
SMALLEST_FOR_VGG = 16
"""Side of the smallest image for VGG, in pixels: VGG halves an image four times."""

AUGMENTATIONS: Mapping[str, tuple[SampleKind, ...]] = {
    "crop": (SampleKind.IMAGES, SampleKind.SIGNALS),
    "flip": (SampleKind.IMAGES,),
    "jitter": (SampleKind.SIGNALS,),
    "scale": (SampleKind.SIGNALS,),
}
"""The kinds of samples that each augmentation applies to."""

LEFT_OUT = {"chestmnist": "its samples have several labels at once: name its file, with --task classification"}

TINY_SUGGESTS: Layer = {
    "backbone": {"name": "resnet"},
    "method": {"name": "sae", "batch_repetition": 1},  # another method replaces this section
    "data": {"crop": 4, "flip": True},
    "train": {"epochs": 100, "batch_size": 128, "weight_decay": 0.0},
}
TABLE_SUGGESTS: Layer = {"backbone": {"name": "fc"}}
SIGNAL_SUGGESTS: Layer = {"backbone": {"name": "conv1d"}}
EMBEDDED_SUGGESTS: Layer = {"backbone": {"name": "fc"}, "train": {"epochs": 30, "lr": 1e-3}}


@dataclass(frozen=True)
class Entry:
    """A data set that can be read.

    Attributes:
        summary: One line for people.
        reader: `module:function`; the function takes a `DataConfig` and the run's seed and returns a `Dataset`.
        suggests: Settings for a run on this data; the user's settings override them.
        kind: The kind of its samples.
        task: The task, if the data set fixes it.
        takes: The optional settings that this data set uses: task, size, val_fraction, resize, and those of tables.
        files: The published files of each size; the key None means that there is only one size.
            Empty if nothing has to be fetched.
        learns: Whether reading learns encodings from the training samples; the reader then also takes the `Known`
            of an earlier reading, or None.
        count: Counts the training samples of the user's own data, given its path; None if it cannot tell. Settings
            that suit this number are then suggested, too.
        depth: Bits of a channel of an image.
        headline: The metrics shown first in results: quality, calibration, likelihood; by default those of the task.
    """

    summary: str
    reader: str
    suggests: Layer = field(default_factory=dict)
    kind: SampleKind = SampleKind.IMAGES
    task: Literal["classification", "regression"] | None = "classification"
    takes: frozenset[str] = frozenset()
    files: Mapping[int | None, tuple[PublishedFile, ...]] = field(default_factory=dict)
    learns: bool = False
    count: Callable[[Path], int | None] | None = None
    depth: "Depth" = 8
    headline: tuple[str, ...] = ()

    @property
    def has_corruptions(self) -> bool:
        """Whether corrupted versions of the samples are defined: for images of bytes."""
        return self.kind is SampleKind.IMAGES and self.depth == 8

    @property
    def is_here(self) -> bool:
        """Whether the files of one size are on this machine, or none is needed."""
        return not self.files or any(all(map(is_present, files)) for files in self.files.values())

    def read(self, config: DataConfig, seed: int, known: "Known | None" = None) -> "Dataset":
        """Check the settings, then read the data set."""
        from sae.data.normalisation import normalised
        from sae.data.splits import limit_training

        self.check_settings(config)
        module, function = self.reader.split(":")
        more = (known,) if self.learns else ()
        dataset: Dataset = getattr(import_module(module), function)(config, seed, *more)
        return limit_training(normalised(dataset, config), config.train_size, config.split_seed)

    def suggest(self, name: str, train_size: int | None = None) -> Layer:
        """Return the settings for a run on this data, with those that suit the number of samples.

        Args:
            name: Name or path of the data.
            train_size: Number of training samples that are used; by default all.
        """
        number = self.count(find_own(name)) if self.count else None
        if not number:
            return self.suggests
        return merge(suggest_training(min(number, train_size or number)), self.suggests)

    def check_settings(self, config: DataConfig) -> None:
        """Refuse settings that would have no effect, and ask for those that are needed."""
        for key in (*TABLE_SETTINGS, "size", "resize", "val_fraction"):
            if getattr(config, key) not in (None, ()) and key not in self.takes:
                raise ConfigError(f"data.{key} has no effect on {config.name}, got {getattr(config, key)}: remove it")
        for key, usual in (("standardise", "set"), ("normalisation", "own")):
            if getattr(config, key) != usual and self.kind is not SampleKind.IMAGES:
                given = f"data.{key}={getattr(config, key)}"
                raise ConfigError(f"{given} needs images, but {config.name} is {self.kind.phrase}: remove it")
        if config.fit != "stretch" and config.resize is None:
            raise ConfigError(
                f"data.fit has no effect without data.resize, got {config.fit}: add --resize, or remove it"
            )
        asks_for_target = "target" in self.takes and not config.targets  # the reader does, with the names of columns
        if "task" in self.takes and config.task is None and not asks_for_target:
            raise ConfigError(f"data.task must be set for {config.name}: --task classification or --task regression")
        if self.task is not None and config.task not in (None, self.task):
            raise ConfigError(f"data.task must be {self.task} for {config.name}, got {config.task}: remove it")
        if config.kind not in (None, self.kind):
            raise ConfigError(f"data.kind must be {self.kind} for {config.name}, got {config.kind}: remove it")
        for key, kinds in AUGMENTATIONS.items():
            if getattr(config, key) and self.kind not in kinds:
                raise ConfigError(
                    f"data.{key} must be off for {config.name}, got {getattr(config, key)}: "
                    f"it applies to {' and '.join(kinds)}, and this is {self.kind.phrase}"
                )


def _medmnist(name: str, facts: published.MedMnistSet) -> Entry:
    return Entry(
        facts.summary,
        "sae.data.npz_images:read_medmnist",
        {
            "backbone": {"name": facts.backbone},
            "data": {"size": published.PADDED_SIZE, "crop": 4, "flip": facts.flip},
            "train": {"batch_size": facts.batch_size},
        },
        task=facts.task,
        takes=frozenset({"size", "val_fraction"}),
        files={size: (file,) for size, file in facts.files(name).items()},
        headline=facts.headline,
    )


def _mnist(facts: published.MnistSet) -> Entry:
    return Entry(
        facts.summary,
        "sae.data.idx:read_mnist",
        {
            "backbone": {"name": "fc"},
            "data": {"flip": facts.flip},
            "train": {"epochs": 20, "batch_size": 128, "lr": 1e-3},
        },
        headline=("accuracy", "ece", "nll"),
        files={None: facts.files},
    )


CATALOGUE: dict[str, Entry] = {
    "digits": Entry(
        "1,797 handwritten digits, 8×8 gray enlarged to 16×16, 10 classes (scikit-learn)",
        "sae.data.embedded:read_digits",
        {**EMBEDDED_SUGGESTS, "data": {"crop": 1}},
    ),
    "diabetes": Entry(
        "442 patients, 10 features, regression of disease progression (scikit-learn)",
        "sae.data.embedded:read_diabetes",
        EMBEDDED_SUGGESTS,
        kind=SampleKind.TABLE,
        task="regression",
    ),
    "tinyimagenet": Entry(
        "TinyImageNet: 100,000/10,000 images for training and test, 64² RGB, 200 classes",
        "sae.data.image_tree:read_tiny_published",
        TINY_SUGGESTS,
        headline=("accuracy", "ece", "nll"),
        files={None: (published.TINY_FILE,)},
    ),
    "cifar10": Entry(
        "CIFAR-10: 45,000/5,000/10,000 images, 32² RGB, 10 classes",
        "sae.data.cifar:read_cifar",
        published.CIFAR10_SUGGESTS,
        takes=frozenset({"resize"}),
        headline=("accuracy", "ece", "nll"),
        files={None: (published.CIFAR10_FILE,)},
    ),
    **{name: _mnist(facts) for name, facts in published.MNIST.items()},
    **{name: _medmnist(name, facts) for name, facts in published.MEDMNIST.items()},
}


def suggestions(name: str, given: Layer | None = None) -> Values:
    """Return the settings that a data set and a backbone suggest, the lowest layer of a run's settings.

    Args:
        name: Name or path of the data.
        given: The layers above; they may tell the kind, size and number of the samples, and the backbone.
    """
    given = given or {}
    entry = find_entry(name, data_kind(given), data_side(given))
    suggested = entry.suggest(name, data_train_size(given))
    named = {**suggested, "data": {"name": name, **suggested.get("data", {})}}
    return suit_backbone(named, given, can_resize="resize" in entry.takes)


def resolve(*layers: Layer) -> RunConfig:
    """Return the settings of a run: the given layers over the data set's suggestions for the method.

    `sae train` does the same with its config file, flags and --set, so the same settings give the
    same run from Python and from the command line.

    Args:
        layers: Mappings of settings, later ones over earlier ones; one of them names the data.

    Example:
        >>> config = resolve({"data": "digits"}, {"method": {"inputs": 3}})
        >>> config.method.inputs, config.backbone.name, config.data.crop
        (3, 'fc', 1)
        >>> resolve({"data": "digits", "method": "batch_ensemble"}).train.batch_size
        72
    """
    given: Values = {}
    for layer in layers:
        given = merge(_for_other_file(given, layer), layer)
    return lay_over(suggestions(data_name(given), given), given)


def _for_other_file(below: Values, above: Layer) -> Values:
    """Keep the data settings of one own file, such as its task and target, for another that the layer above names."""
    before, after = section_name(below.get("data")), section_name(above.get("data"))
    if not (isinstance(before, str) and isinstance(after, str)) or before in CATALOGUE or after in CATALOGUE:
        return below
    return merge(below, {"data": {**merge({"data": {}}, below)["data"], "name": after}})


def load(config: DataConfig, seed: int = 0, known: "Known | None" = None) -> "Dataset":
    """Read a data set of the catalogue or of the user.

    Args:
        config: Name or path of the data, and how to read it.
        seed: Seed of the run; it chooses the validation images of TinyImageNet.
        known: Facts that an earlier reading learnt, to be used again.
    """
    return find_entry(config.name, config.kind).read(config, seed, known)


def load_others(name: str, like: "Dataset") -> "Samples":
    """Return the out-of-distribution samples of a set: its test split, or the samples in an `.npz` file.

    Args:
        name: Name or path of the other set.
        like: The data set of the run; images of the other set are resized like its images.
    """
    kind, resize = like.spec.kind, (like.spec.shape[1], like.spec.shape[2]) if like.fit else None
    if Path(name).suffix.lower() == ".npz" and kind is SampleKind.SIGNALS:
        from sae.data.signals import read_samples

        return read_samples(find_own(name))
    if Path(name).suffix.lower() == ".npz":
        from sae.data.npz_images import read_images

        return read_images(find_own(name), resize, like.fit or "stretch")
    if resize and "resize" in find_entry(name).takes:
        return load(DataConfig(name=name, resize=resize, fit=like.fit or "stretch")).test.inputs
    return load(DataConfig(name=name)).test.inputs


def published_files(name: str, size: int | None = None) -> tuple[PublishedFile, ...]:
    """Return the files to fetch for a data set of the catalogue."""
    files = find_entry(name).files
    if not files:
        raise DataError(f"{name} has no file to fetch: it comes with scikit-learn or is your own")
    chosen = size if size is not None else next(iter(files))
    if chosen not in files:
        raise DataError(f"size must be one of {', '.join(map(str, files))} for {name}, got {size}")
    return files[chosen]


def find_entry(name: str, kind: SampleKind | None = None, side: int | None = None) -> Entry:
    """Return the entry of a data set, by its name in the catalogue or by the path of the user's own data.

    Args:
        name: The name or path.
        kind: The kind of samples that the user gave for own data, if any.
        side: Shorter side that the user resizes images to.
    """
    if name in CATALOGUE:
        return CATALOGUE[name]
    if Path(name).suffix.lower() in OWN_SUFFIXES or "/" in name or Path(name).is_dir():
        return own_entry(name, kind, side)
    if name in LEFT_OUT:
        raise DataError(f"{name} cannot be used: {LEFT_OUT[name]}")
    hint = did_you_mean(name, CATALOGUE)
    raise DataError(
        f"data must be one of {', '.join(CATALOGUE)}, or the path of a folder of images or of a "
        f"{', '.join(OWN_SUFFIXES)} file; got {name!r}{hint}"
    )


def own_entry(name: str, kind: SampleKind | None = None, side: int | None = None) -> Entry:
    """Return the entry of the user's own file or folder, from a first look at it."""
    path = find_own(name)
    suffix = path.suffix.lower()
    if path.is_dir() or suffix == ".zip":
        from sae.data.image_tree import layout_of

        layout = layout_of(path)
        if layout.is_tiny:
            reader = "sae.data.image_tree:read_tiny_own"
            return Entry("images in the layout of TinyImageNet", reader, TINY_SUGGESTS, takes=frozenset({"resize"}))
        return Entry(
            "images in one folder per class",
            "sae.data.image_tree:read_folder",
            _suggest_backbone(side or layout.side),
            takes=frozenset({"resize"}),
            depth=layout.depth,
            count=count_folder,
        )
    if suffix == ".npz":
        from sae.data.npz_images import first_kind
        from sae.data.signals import kind_of_samples

        if kind_of_samples(path, kind) is SampleKind.SIGNALS:
            return _signals("signals in an .npz file", "sae.data.signals:read_own", {"task"}, count_signals)
        first = first_kind(path)
        return Entry(
            "images in an .npz file",
            "sae.data.npz_images:read_own",
            _suggest_backbone(side or (first.side if first else 0)),
            task=None,
            takes=frozenset({"task", "resize"}),
            learns=True,
            depth=first.depth if first else 8,
            count=count_npz,
        )
    if suffix in (".csv", ".parquet") and kind is SampleKind.SIGNALS:
        reader = "sae.data.table:read_own_signals"
        return _signals("signals, one in each row of a table", reader, {"task", *ROW_SETTINGS}, count_table)
    if suffix in (".csv", ".parquet") and _names_images(path, kind):
        from sae.data.image_list import list_kind

        first = list_kind(path)
        return Entry(
            "images that a table names",
            "sae.data.image_list:read_list",
            _suggest_backbone(side or first.side),
            task=None,
            takes=frozenset({"task", "resize", *ROW_SETTINGS}),
            learns=True,
            depth=first.depth,
            count=count_table,
        )
    if suffix in (".csv", ".parquet"):
        return Entry(
            "a table",
            "sae.data.table:read_own",
            TABLE_SUGGESTS,
            kind=SampleKind.TABLE,
            task=None,
            takes=frozenset({"task", *TABLE_SETTINGS}),
            learns=True,
            count=count_table,
        )
    raise DataError(f"data must be a folder, .npz, .zip, .csv or .parquet, got {Path(name)}")


def _signals(summary: str, reader: str, takes: set[str], count: Callable[[Path], int | None]) -> Entry:
    return Entry(
        summary,
        reader,
        SIGNAL_SUGGESTS,
        SampleKind.SIGNALS,
        task=None,
        takes=frozenset(takes),
        learns=True,
        count=count,
    )


def _names_images(path: Path, kind: SampleKind | None) -> bool:
    """Return whether a table names image files: the user says so, or its first row names one."""
    from sae.data.image_list import is_image_list

    return kind is SampleKind.IMAGES or (kind is None and is_image_list(path))


def _suggest_backbone(side: int) -> Layer:
    return {"backbone": {"name": "vgg" if side >= SMALLEST_FOR_VGG else "fc"}}
