"""Names of the arrays in `.npz` files: which hold samples, which their labels, and of which split."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sae.core.errors import DataError
from sae.core.task import SampleKind
from sae.data.archive import open_zip

ALL = "all"
"""The one part of a file without splits."""
SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class NamePair:
    """The names of an array of samples and of its labels; `{}` stands for the split, if there are splits.

    Attributes:
        kind: What the samples are, if their name says so.
    """

    samples: str
    labels: str
    kind: SampleKind | None

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of a file that may have these names."""
        return SPLITS if "{}" in self.samples else (ALL,)


NAME_PAIRS = (
    NamePair("{}_images", "{}_labels", SampleKind.IMAGES),
    NamePair("{}_signals", "{}_labels", SampleKind.SIGNALS),
    NamePair("x_{}", "y_{}", None),
    NamePair("images", "labels", SampleKind.IMAGES),
    NamePair("signals", "labels", SampleKind.SIGNALS),
    NamePair("x", "y", None),
)


@dataclass(frozen=True)
class NpzLayout:
    """The arrays of a file, under the names they have there.

    Attributes:
        pair: How they are named; upper and lower case are the same.
        samples: Name of the samples of each part: train, val and test, or `ALL`.
        labels: Name of the labels of each part that has labels.
    """

    path: Path
    pair: NamePair
    samples: Mapping[str, str]
    labels: Mapping[str, str]

    def check_complete(self) -> None:
        """Refuse a file to train on that lacks the training or test split, or the labels of a split."""
        optional = [part for part in ("val",) if part in self.samples or part in self.labels]
        parts = self.pair.parts if ALL in self.pair.parts else ("train", "test", *optional)
        missing = [
            name.format(part)
            for part in parts
            for name, held in ((self.pair.samples, self.samples), (self.pair.labels, self.labels))
            if part not in held
        ]
        if missing:
            raise DataError(
                f"{self.path} must hold samples and labels for training and for test, "
                f"but {', '.join(missing)} is missing"
            )


def find_layout(path: Path, kind: SampleKind | None = None) -> NpzLayout | None:
    """Return where the samples and labels of a file are, or None if it has no array of a known name.

    Args:
        path: An `.npz` file.
        kind: What the samples are; chooses between the arrays of a file that holds several kinds.
    """
    found = [layout for layout in _layouts(path) if kind is None or layout.pair.kind in (None, kind)]
    found = found or list(_layouts(path))
    split = [layout for layout in found if ALL not in layout.samples]
    found = split or found
    if len(found) > 1:
        names = " and ".join(next(iter(layout.samples.values())) for layout in found)
        raise DataError(f"{path} must hold samples of one kind, got {names}: remove one of them, or say --kind")
    return found[0] if found else None


def samples_of_split(path: Path, split: str) -> tuple[str, str | None]:
    """Return the names of the samples and labels of a split, or of all samples in a file without splits.

    The labels are None if the file has none.
    """
    for layout in _layouts(path):
        for part in (split, ALL):
            if part in layout.samples:
                return layout.samples[part], layout.labels.get(part)
    wanted = ", ".join(dict.fromkeys(pair.samples.format(split) for pair in NAME_PAIRS))
    raise DataError(f"{path} must hold one of {wanted}; got {', '.join(array_names(path))}")


def array_names(path: Path) -> list[str]:
    """Return the names of the arrays of a file."""
    with open_zip(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def _layouts(path: Path) -> list[NpzLayout]:
    held = {name.lower(): name for name in array_names(path)}

    def present(pattern: str, parts: tuple[str, ...]) -> dict[str, str]:
        return {part: held[name] for part in parts if (name := pattern.format(part)) in held}

    layouts = (
        NpzLayout(path, pair, present(pair.samples, pair.parts), present(pair.labels, pair.parts))
        for pair in NAME_PAIRS
    )
    return [layout for layout in layouts if layout.samples]
