"""Data sets by name, and the settings each suggests. To add one: a line below.

Light to import: the readers are loaded only when a set is.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sae.config import DataConfig
from sae.errors import DataError

if TYPE_CHECKING:
    from sae.data.dataset import Dataset


@dataclass(frozen=True)
class Entry:
    """A data set of the catalogue.

    Attributes:
        summary: One line for people.
        reader: `module:function` from a `DataConfig` to a `Dataset`.
        suggests: Settings for a run on it, under those that the user gives.
    """

    summary: str
    reader: str
    suggests: Mapping[str, Any] = field(default_factory=dict)


CATALOGUE: dict[str, Entry] = {
    "digits": Entry(
        "1,797 handwritten digits, 8×8 gray enlarged to 16×16, 10 classes (scikit-learn)",
        "sae.data.embedded:read_digits",
        {"backbone": {"name": "fc"}, "data": {"crop": 1}, "train": {"epochs": 30, "lr": 1e-3}},
    ),
    "diabetes": Entry(
        "442 patients, 10 features, regression of disease progression (scikit-learn)",
        "sae.data.embedded:read_diabetes",
        {"backbone": {"name": "fc"}, "train": {"epochs": 30, "lr": 1e-3}},
    ),
}


def suggestions(name: str) -> dict[str, Any]:
    """The lowest layer of a run's settings: what the data set of this name suggests."""
    entry = _entry(name)
    return {**entry.suggests, "data": {"name": name, **entry.suggests.get("data", {})}}


def load(config: DataConfig) -> "Dataset":
    """Read a data set of the catalogue."""
    module, function = _entry(config.name).reader.split(":")
    dataset: Dataset = getattr(import_module(module), function)(config)
    return dataset


def _entry(name: str) -> Entry:
    if name not in CATALOGUE:
        close = difflib.get_close_matches(name, CATALOGUE, n=1)
        hint = f", did you mean {close[0]}?" if close else ""
        raise DataError(f"data must be one of {', '.join(CATALOGUE)}; got {name!r}{hint}")
    return CATALOGUE[name]
