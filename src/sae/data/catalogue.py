"""Data sets by name, and the settings each suggests. To add one: a line below.

Light to import: the readers are loaded only when a set is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sae.config.run import DataConfig, RunConfig, resolve, suit_method
from sae.config.settings import Layer, section_name
from sae.core.errors import ConfigError, DataError, did_you_mean
from sae.data.locations import PublishedFile, find_own
from sae.data.medmnist import MEDMNIST, PADDED_SIZE, MedMnistSet

if TYPE_CHECKING:
    from sae.data.dataset import Dataset, Samples

OWN_SUFFIXES = (".npz", ".csv", ".parquet", ".zip")
"""Files that may be the user's own data; a folder may be too."""
SMALLEST_FOR_VGG = 16
"""Pixels: VGG halves an image four times."""

LEFT_OUT = {"chestmnist": "its samples have several labels at once, which no task here can express"}

TINY_SUGGESTS = {
    "backbone": {"name": "resnet"},
    "method": {"name": "sae", "batch_repetition": 1},  # a section of another name replaces this one
    "data": {"crop": 4, "flip": True},
    "train": {"epochs": 100, "batch_size": 128, "weight_decay": 0.0},
}
EMBEDDED_SUGGESTS = {"backbone": {"name": "fc"}, "train": {"epochs": 30, "lr": 1e-3}}


@dataclass(frozen=True)
class Entry:
    """A data set that can be read.

    Attributes:
        summary: One line for people.
        reader: `module:function` from a `DataConfig` and the run's seed to a `Dataset`.
        suggests: Settings for a run on it, under those that the user gives.
        kind: What a sample is; only images can be cropped and flipped.
        task: What is predicted, where that is fixed.
        takes: Settings beyond the common ones that mean something here: task, target, size.
        files: The published file of each size; None is the only size. Empty if there is nothing to fetch.
    """

    summary: str
    reader: str
    suggests: Mapping[str, Any] = field(default_factory=dict)
    kind: Literal["images", "table"] = "images"
    task: Literal["classification", "regression"] | None = "classification"
    takes: frozenset[str] = frozenset()
    files: Mapping[int | None, PublishedFile] = field(default_factory=dict)

    def read(self, config: DataConfig, seed: int) -> "Dataset":
        """Check the settings, then read."""
        self.check_settings(config)
        module, function = self.reader.split(":")
        dataset: Dataset = getattr(import_module(module), function)(config, seed)
        return dataset

    def check_settings(self, config: DataConfig) -> None:
        """Refuse settings that would be ignored, and ask for those that are needed."""
        for key in ("target", "size"):
            if getattr(config, key) is not None and key not in self.takes:
                raise ConfigError(
                    f"data.{key} means nothing for {config.name}, got {getattr(config, key)}: leave it out"
                )
        if "task" in self.takes and config.task is None:
            raise ConfigError(f"data.task must be said for {config.name}: --task classification or --task regression")
        if self.task is not None and config.task not in (None, self.task):
            raise ConfigError(f"data.task must be {self.task} for {config.name}, got {config.task}: leave it out")
        if self.kind == "table":
            for key in ("crop", "flip"):
                if getattr(config, key):
                    raise ConfigError(
                        f"data.{key} must be off for {config.name}, got {getattr(config, key)}: "
                        f"only images can be varied, and this is a table"
                    )


def _medmnist(name: str, facts: MedMnistSet) -> Entry:
    return Entry(
        facts.summary,
        "sae.data.npz:read_medmnist",
        {
            "backbone": {"name": facts.backbone},
            "data": {"size": PADDED_SIZE, "crop": 4, "flip": facts.flip},
            "train": {"batch_size": facts.batch_size},
        },
        task=facts.task,
        takes=frozenset({"size"}),
        files=facts.files(name),
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
        kind="table",
        task="regression",
    ),
    "tinyimagenet": Entry(
        "TinyImageNet: 100,000/10,000 images for training and test, 64² RGB, 200 classes",
        "sae.data.image_tree:read_tiny_published",
        TINY_SUGGESTS,
        files={
            None: PublishedFile(
                "tiny-imagenet-200.zip",
                "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
                "90528d7ca1a48142e341f4ef8d21d0de",
                unpacked="tiny-imagenet-200",
            )
        },
    ),
    **{name: _medmnist(name, facts) for name, facts in MEDMNIST.items()},
}


def data_name(given: Layer) -> str:
    """The name of the data in settings, which has to be said."""
    name = section_name(given.get("data"))
    if not isinstance(name, str):
        raise ConfigError("which data to train on must be said: --data NAME, or data.name in the config file")
    return name


def suggestions(name: str) -> dict[str, Any]:
    """The lowest layer of a run's settings: what the data set of this name or path suggests."""
    entry = find_entry(name)
    return {**entry.suggests, "data": {"name": name, **entry.suggests.get("data", {})}}


def resolve_on(name: str, given: Layer) -> RunConfig:
    """The settings of a run on this data: what it suggests for the method, and over that what is given.

    Example:
        >>> resolve_on("digits", {"method": "batch_ensemble"}).train.batch_size
        72
    """
    return resolve({"method": {"name": "sae"}}, suit_method(suggestions(name), given), given)


def load(config: DataConfig, seed: int = 0) -> "Dataset":
    """Read a data set of the catalogue or of the user.

    Args:
        config: Which, and how it is to be taken.
        seed: The run's; TinyImageNet's validation samples depend on it.
    """
    return find_entry(config.name).read(config, seed)


def load_others(name: str) -> "Samples":
    """The samples alone of another set, to tell from a run's own: a test split, or images in an `.npz` file."""
    if Path(name).suffix.lower() == ".npz":
        from sae.data.npz import read_images

        return read_images(find_own(name))
    return load(DataConfig(name=name)).test.inputs


def published_file(name: str, size: int | None = None) -> PublishedFile:
    """The file to fetch for a set of the catalogue."""
    files = find_entry(name).files
    if not files:
        raise DataError(f"{name} needs no fetching: it comes with scikit-learn or is your own")
    chosen = size if size is not None else next(iter(files))
    if chosen not in files:
        raise DataError(f"size must be one of {', '.join(map(str, files))} for {name}, got {size}")
    return files[chosen]


def find_entry(name: str) -> Entry:
    """What is known of a set, by its name in the catalogue or by the path of the user's own."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    if Path(name).suffix.lower() in OWN_SUFFIXES or "/" in name or Path(name).is_dir():
        return own_entry(name)
    if name in LEFT_OUT:
        raise DataError(f"{name} cannot be used: {LEFT_OUT[name]}")
    hint = did_you_mean(name, CATALOGUE)
    raise DataError(
        f"data must be one of {', '.join(CATALOGUE)}, or the path of a folder of images or of a "
        f"{', '.join(OWN_SUFFIXES)} file; got {name!r}{hint}"
    )


def own_entry(name: str) -> Entry:
    """What is known of a file or folder before it is read as a whole."""
    from sae.data.image_tree import layout_of
    from sae.data.npz import image_side

    path = find_own(name)
    suffix = path.suffix.lower()
    if path.is_dir() or suffix == ".zip":
        layout = layout_of(path)
        if layout.is_tiny:
            return Entry("images laid out like TinyImageNet", "sae.data.image_tree:read_tiny_own", TINY_SUGGESTS)
        suggests = _backbone_for(layout.side)
        return Entry("images in a folder for each class", "sae.data.image_tree:read_folder", suggests)
    if suffix == ".npz":
        suggests = _backbone_for(image_side(path))
        return Entry("images in an .npz file", "sae.data.npz:read_own", suggests, task=None, takes=frozenset({"task"}))
    if suffix in (".csv", ".parquet"):
        return Entry(
            "a table",
            "sae.data.table:read_own",
            {"backbone": {"name": "fc"}},
            kind="table",
            task=None,
            takes=frozenset({"task", "target"}),
        )
    raise DataError(f"data must be a folder, .npz, .zip, .csv or .parquet, got {Path(name)}")


def _backbone_for(side: int) -> dict[str, Any]:
    return {"backbone": {"name": "vgg" if side >= SMALLEST_FOR_VGG else "fc"}}
