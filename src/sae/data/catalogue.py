"""Data sets by name, and the settings each suggests. To add one: a line below.

Light to import: the readers are loaded only when a set is.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sae.config.run import DataConfig, RunConfig, parse_run, suit_method
from sae.config.settings import Layer, merge, section_name
from sae.core.errors import ConfigError, DataError, did_you_mean
from sae.data.entry import Entry, PublishedFile
from sae.data.medmnist_table import MEDMNIST, PADDED_SIZE, MedMnistSet

if TYPE_CHECKING:
    from sae.data.dataset import Dataset, Samples

OWN_SUFFIXES = (".npz", ".csv", ".parquet", ".zip")
"""Files that may be the user's own data; a folder may be too."""

LEFT_OUT = {"chestmnist": "its samples have several labels at once, which no task here can express"}

TINY_SUGGESTS = {
    "backbone": {"name": "resnet"},
    "method": {"name": "sae", "batch_repetition": 1},  # a section of another name replaces this one
    "data": {"crop": 4, "flip": True},
    "train": {"epochs": 100, "batch_size": 128, "weight_decay": 0.0},
}
EMBEDDED_SUGGESTS = {"backbone": {"name": "fc"}, "train": {"epochs": 30, "lr": 1e-3}}


def _medmnist(name: str, facts: MedMnistSet) -> Entry:
    return Entry(
        facts.summary,
        "sae.data.medmnist:read_medmnist",
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
        "sae.data.tinyimagenet:read_published",
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
    """Return the name of the data in settings, which is required."""
    name = section_name(given.get("data"))
    if not isinstance(name, str):
        raise ConfigError("data.name must be set: give --data NAME, or data.name in the settings")
    return name


def suggestions(name: str) -> dict[str, Any]:
    """The lowest layer of a run's settings: what the data set of this name or path suggests."""
    entry = find_entry(name)
    return {**entry.suggests, "data": {"name": name, **entry.suggests.get("data", {})}}


def resolve(*layers: Layer) -> RunConfig:
    """Return the settings of a run: the given layers over what the data set suggests for the method.

    This is what `sae train` does with its config file, flags and --set, so the same settings
    give the same run from Python and from the command line.

    Args:
        layers: Mappings of settings, later ones over earlier ones; one of them names the data.

    Example:
        >>> config = resolve({"data": "digits"}, {"method": {"inputs": 3}})
        >>> config.method.inputs, config.backbone.name, config.data.crop
        (3, 'fc', 1)
        >>> resolve({"data": "digits", "method": "batch_ensemble"}).train.batch_size
        72
    """
    given: dict[str, Any] = {}
    for layer in layers:
        given = merge(given, layer)
    return parse_run({"method": {"name": "sae"}}, suit_method(suggestions(data_name(given)), given), given)


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
        from sae.data.locations import find_own
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
        from sae.data.own import own_entry

        return own_entry(name)
    if name in LEFT_OUT:
        raise DataError(f"{name} cannot be used: {LEFT_OUT[name]}")
    hint = did_you_mean(name, CATALOGUE)
    raise DataError(
        f"data must be one of {', '.join(CATALOGUE)}, or the path of a folder of images or of a "
        f"{', '.join(OWN_SUFFIXES)} file; got {name!r}{hint}"
    )
