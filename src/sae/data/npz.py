""".npz files: arrays that are read in parts, the layout of samples and labels, and labels as targets."""

import math
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from sae.core.errors import DataError
from sae.core.task import SampleKind
from sae.data.archive import ZIP_DAMAGES, open_zip
from sae.data.dataset import ALL, SPLITS, Array, Known, is_sparse

DAMAGES = (
    *ZIP_DAMAGES,
    *(KeyError, TypeError, OverflowError, SyntaxError, RecursionError, tokenize.TokenError),
)
"""Exceptions of numpy and zipfile for a damaged file; the header of an array is parsed as Python."""


@dataclass(frozen=True)
class Member:
    """An array of an `.npz` file that has not been read yet."""

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.number]
    is_column_major: bool

    def read(self) -> Array:
        """Read the whole array; pickled objects are refused, because they could run code."""
        try:
            with np.load(self.path, allow_pickle=False) as file:
                array: Array = file[self.name]
        except DAMAGES as error:
            raise _refusal(self.path, self.name, error) from None
        return array

    def rows(self) -> Iterator[Array]:
        """Yield the array row by row along its first dimension."""
        if self.is_column_major:
            yield from self.read()
            return
        size = self.dtype.itemsize * int(np.prod(self.shape[1:]))
        try:
            with open_zip(self.path) as archive, archive.open(f"{self.name}.npy") as file:
                _read_header(file)
                for _ in range(self.shape[0]):
                    yield np.frombuffer(file.read(size), self.dtype).reshape(self.shape[1:])
        except DAMAGES as error:
            raise _refusal(self.path, self.name, error) from None


def open_member(path: Path, name: str) -> Member:
    """Read the header of an array."""
    try:
        with open_zip(path) as archive, archive.open(f"{name}.npy") as file:
            shape, is_column_major, dtype = _read_header(file)
            held, stored = math.prod(shape) * dtype.itemsize, archive.getinfo(f"{name}.npy").file_size - file.tell()
            if min(shape, default=0) < 0 or (held != stored and not dtype.hasobject):
                raise ValueError(f"shape {shape} of {dtype} takes {held:,} bytes, but there are {stored:,}")
    except DAMAGES as error:
        raise _refusal(path, name, error) from None
    return Member(path, name, shape, dtype, is_column_major and len(shape) > 1)


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.number]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_column_major, dtype = read(file)
    return shape, is_column_major, dtype


def _refusal(path: Path, name: str, error: Exception) -> DataError:
    return DataError(f"{name} of {path} must be an array of numbers, but cannot be read: {error}")


@dataclass(frozen=True)
class NamePair:
    """The names of an array of samples and of its labels; `{}` is replaced by the split, if there are splits.

    Attributes:
        kind: The kind of the samples, if their name says so.
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
        pair: Their naming; upper and lower case are the same.
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
    """Return the layout of a file's samples and labels, or None if no array has a known name.

    Args:
        path: An `.npz` file.
        kind: The kind of samples to find, if a file holds several kinds.
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


def named_targets(
    raw: Mapping[str, Array], task: str | None, places: Mapping[str, str], known: Known | None
) -> tuple[dict[str, Array], tuple[str, ...] | None]:
    """Return the targets of each part, and the names of the classes if labels are texts, or not 0, 1, 2, ….

    Args:
        raw: Labels of each part.
        task: The task of a run's settings.
        places: Name and file of the labels of each part.
        known: The classes of an earlier reading; by default those of the training split.
    """
    is_text = {array.dtype.kind == "U" for array in raw.values()}
    has_classes = task in ("classification", "ordinal")
    if not has_classes or True not in is_text:
        targets = {part: targets_of(array, task, places[part]) for part, array in raw.items()}
        has_classes = has_classes and all(array.ndim == 1 for array in targets.values())  # not several labels
        found = known.class_names if known else _numbered_classes(targets) if has_classes else None
        if found is None:
            return targets, None
        raw = {part: array.astype(str) for part, array in targets.items()}
    elif False in is_text:
        raise DataError(f"labels must be texts in all splits or in none, got both in {', '.join(places.values())}")
    else:
        given = known.class_names if known else None
        found = tuple(np.unique(raw["train" if "train" in raw else ALL] if given is None else given).tolist())
    return {part: _labels(array, found, places[part]) for part, array in raw.items()}, found


def _numbered_classes(labels: Mapping[str, Array]) -> tuple[str, ...] | None:
    """Return the names of classes whose numbers have gaps, such as 1, 2, 3; None if they are 0, 1, 2, ….

    A class that only the other splits have fills a gap. Numbers that `count_classes` refuses are left to it.
    """
    training = np.unique(labels["train" if "train" in labels else ALL])
    if len(training) < 2 or is_sparse(training):
        return None
    every = np.unique(np.concatenate([array[array <= training[-1]] for array in labels.values()]))
    return None if every[0] < 0 or len(every) == training[-1] + 1 else tuple(map(str, every.tolist()))


def _labels(texts: Array, names: tuple[str, ...], where: str) -> Array:
    """Return the labels of classes by their names."""
    order = np.argsort(names)
    known = np.array(names)[order]
    unknown = np.flatnonzero(~np.isin(texts, known))
    if texts.ndim != 1 or unknown.size:
        given = repr(str(texts[unknown[0]])) if texts.ndim == 1 else f"shape {texts.shape}"
        raise DataError(f"there must be one label of the training split for each sample, got {given} in {where}")
    labels: Array = order[np.searchsorted(known, texts)].astype(np.int64)
    return labels


def targets_of(labels: Array, task: str | None, where: str) -> Array:
    """Return the targets of the samples, (sample[, target]); refuse labels that do not suit the task."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim not in (1, 2) or (labels.ndim == 2 and task not in ("classification", "regression")):
        raise DataError(f"there must be one label for each sample, got shape {labels.shape} in {where}")
    is_integer = np.issubdtype(labels.dtype, np.integer)
    has_classes = task in ("classification", "ordinal")
    if has_classes and not is_integer:
        raise DataError(
            f"labels must be integers for classification, got {labels.dtype} in {where}: use --task regression?"
        )
    if not is_integer and not np.issubdtype(labels.dtype, np.floating):
        raise DataError(f"targets must be numbers, got {labels.dtype} in {where}")
    return labels.astype(np.int64 if has_classes else np.float64)
