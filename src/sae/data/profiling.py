"""Making the profile of training data, in bounded time: of many samples, evenly spaced ones are looked at."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sae.core.task import Classification, SampleKind
from sae.data.checks import ROWS_AT_ONCE
from sae.data.dataset import (
    SPLITS,
    Array,
    Dataset,
    Features,
    Indices,
    Samples,
    Split,
    SplitName,
    class_titles,
)
from sae.data.training_profile import SHARES, ColumnFacts, DataProfile, Range, number_places, parts_of

Hashes = NDArray[np.uint64]

MOST_ROWS = 200_000
"""Of more rows than this, evenly spaced ones are looked at."""
MOST_BYTES, MOST_HASHED = 2**28, 2**30
"""The same in bytes of samples: those whose columns are sorted, and those that are compared with each other."""
AT_ONCE = 2**23
"""Bytes of samples that are hashed at once."""
MOST_DISTINCT = 10_000
"""Up to this number different values are counted."""
FEWEST_ROWS = 20
"""With fewer rows, a column may agree with the target by accident."""
MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
STEP = np.uint64(0x9E3779B97F4A7C15)
"""Constants of the generator SplitMix64, which mixes bits well."""
NO_SAMPLES = frozenset(
    (
        *("", "txt", "md", "json", "jsonl", "csv", "tsv", "parquet", "xml", "yaml", "yml", "html", "pdf", "py"),
        *("ipynb", "db", "ini", "log", "xlsx", "zip"),
    )
)
"""Suffixes of files that usually lie beside images."""


def profile_data(dataset: Dataset, path: Path | None = None) -> DataProfile:
    """Look at the training samples of a data set, and compare the other splits with them.

    Args:
        dataset: The data set.
        path: The user's own file or folder.
    """
    hashes = {name: _hashes(dataset.split(name)) for name in SPLITS}
    train, targets = hashes["train"]
    groups, inverse, counts = np.unique(train, return_inverse=True, return_counts=True)
    lowest, highest = np.full(len(groups), np.iinfo(np.uint64).max, np.uint64), np.zeros(len(groups), np.uint64)
    np.minimum.at(lowest, inverse, targets)
    np.maximum.at(highest, inverse, targets)
    inputs = dataset.train.inputs
    is_table = dataset.spec.kind is SampleKind.TABLE
    channels, constant = ((), 0.0) if is_table else _channels(dataset)
    others = [name for name in SPLITS if name != "train"]
    return DataProfile(
        rows=len(inputs),
        looked_at=len(train),
        columns=tuple(_columns(dataset)) if is_table else (),
        channels=channels,
        constant=constant,
        repeated=len(train) - len(groups),
        contradicted=int(counts[lowest != highest].sum()),
        known={name: int(np.isin(hashes[name][0], groups).sum()) for name in others},
        compared={name: len(hashes[name][0]) for name in others},
        copies=tuple(_copies(dataset)) if is_table else (),
        absent=_absent(dataset),
        alike=_alike(class_titles(dataset)),
        passed_over={} if path is None else _passed_over(path),
    )


def _spaced(number: int, sample_bytes: int, most_bytes: int) -> Indices:
    """Return evenly spaced rows, all of them if there are few."""
    most = max(1, min(number, MOST_ROWS, most_bytes // max(1, sample_bytes)))
    return np.linspace(0, number - 1, most).astype(np.int64)


def _sample_bytes(inputs: Samples) -> int:
    return int(np.prod(inputs.shape[1:])) * inputs.dtype.itemsize


def _hashes(split: Split) -> tuple[Hashes, Hashes]:
    """Return hashes of the inputs and of the targets of samples, (sample,) each."""
    size = _sample_bytes(split.inputs)
    rows = _spaced(len(split), size, MOST_HASHED)
    step = max(1, AT_ONCE // max(1, size))
    parts = [hash_rows(split.inputs[rows[start : start + step]]) for start in range(0, len(rows), step)]
    return np.concatenate(parts), hash_rows(split.targets[rows].reshape(len(rows), -1))


def hash_rows(rows: Array) -> Hashes:
    """Return a hash of each row, (row,); equal rows have equal ones.

    Example:
        >>> first, second, third = hash_rows(np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]]))
        >>> first == third, first == second
        (np.True_, np.False_)
    """
    content = np.ascontiguousarray(rows).reshape(len(rows), -1).view(np.uint8)
    words: Hashes = np.pad(content, ((0, 0), (0, -content.shape[1] % 8))).view(np.uint64)
    words = np.add(words, STEP * np.arange(1, words.shape[1] + 1, dtype=np.uint64))  # the place counts, too
    for shift, factor in MIX:
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(31)
    hashes: Hashes = words.sum(axis=1, dtype=np.uint64)
    return hashes


def _range(ordered: Features, low: float, high: float) -> Range:
    """Return the range of sorted values."""
    places = (np.array(SHARES) * (len(ordered) - 1)).round().astype(np.int64)
    return Range(low=low, high=high, quantiles=tuple(ordered[places].astype(np.float64).tolist()))


def _columns(dataset: Dataset) -> Iterator[ColumnFacts]:
    inputs, encodings = dataset.train.inputs, dataset.columns or ()
    sample = inputs[_spaced(len(inputs), _sample_bytes(inputs), MOST_BYTES)]
    lowest, highest = _extremes(inputs)
    places = number_places(encodings)
    for encoding, part in parts_of(encodings):
        missing = sample[:, part.stop - 1] > 0 if encoding.marks_missing else np.zeros(len(sample), bool)
        facts = {"name": encoding.name, "missing": float(missing.mean())}
        if not encoding.is_numeric:
            distinct = int((sample[:, part][:, : len(encoding.categories)] > 0).any(axis=0).sum())
            yield ColumnFacts(**facts, holds="categories", distinct=distinct, range=None)
            continue
        place = places[encoding.name]
        values = np.sort(sample[~missing, place])
        distinct = min(MOST_DISTINCT, int((np.diff(values) > 0).sum()) + 1) if len(values) else 0
        found = _range(values, float(lowest[place]), float(highest[place])) if len(values) else None
        yield ColumnFacts(**facts, holds="dates" if encoding.is_date else "numbers", distinct=distinct, range=found)


def _extremes(inputs: Samples) -> tuple[Features, Features]:
    """Return the smallest and the largest value of each feature in all rows, (feature,) each."""
    chunks = (inputs[start : start + ROWS_AT_ONCE] for start in range(0, len(inputs), ROWS_AT_ONCE))
    extremes = [(chunk.min(axis=0), chunk.max(axis=0)) for chunk in chunks]
    return np.min([low for low, _ in extremes], axis=0), np.max([high for _, high in extremes], axis=0)


def _channels(dataset: Dataset) -> tuple[tuple[Range, ...], float]:
    """Return the range of each channel, with quantiles of its means, and the share of samples with a single value."""
    inputs, frame = dataset.train.inputs, dataset.frame
    size = _sample_bytes(inputs)
    rows = _spaced(len(inputs), size, MOST_BYTES)
    step = max(1, AT_ONCE // max(1, size))
    lowest, highest, means = [], [], []
    for start in range(0, len(rows), step):
        chunk = inputs[rows[start : start + step]]
        inner = chunk[..., frame:-frame, frame:-frame] if frame else chunk
        flat = inner.reshape(*inner.shape[:2], -1)
        lowest.append(flat.min(axis=2))
        highest.append(flat.max(axis=2))
        means.append(flat.mean(axis=2))
    low, high, mean = (np.concatenate(part) for part in (lowest, highest, means))
    ranges = tuple(
        _range(np.sort(mean[:, index]), float(low[:, index].min()), float(high[:, index].max()))
        for index in range(low.shape[1])
    )
    return ranges, float((low == high).all(axis=1).mean())


def _copies(dataset: Dataset) -> Iterator[str]:
    """Yield the columns that tell the target one to one: classes in any order, numbers in a rising or falling one."""
    encodings = dataset.columns or ()
    rows = _spaced(len(dataset.train), _sample_bytes(dataset.train.inputs), MOST_BYTES)
    targets = dataset.train.targets[rows]
    if len(rows) < FEWEST_ROWS or targets.ndim > 1:
        return
    sample, places = dataset.train.inputs[rows], number_places(encodings)
    is_class = isinstance(dataset.spec.task, Classification)
    kinds = len(np.unique(targets))
    for encoding, part in parts_of(encodings):
        if encoding.is_numeric:
            values = sample[:, places[encoding.name]]
        else:
            values = sample[:, part] @ np.arange(1.0, encoding.num_features + 1)
        if len(np.unique(values)) != kinds or (not is_class and not encoding.is_numeric):
            continue
        pairs = len(np.unique(np.stack([values, targets.astype(np.float64)], axis=1), axis=0))
        steps = np.diff(targets[np.argsort(values, kind="stable")])
        if pairs == kinds and (is_class or (steps >= 0).all() or (steps <= 0).all()):
            yield encoding.name


def _absent(dataset: Dataset) -> dict[SplitName, tuple[str, ...]]:
    titles = class_titles(dataset)
    found: dict[SplitName, tuple[str, ...]] = {}
    for name in SPLITS if titles else ():
        present = np.unique(dataset.split(name).targets)
        missing = np.setdiff1d(np.arange(len(titles)), present)
        if len(missing):
            found[name] = tuple(titles[label] for label in missing)
    return found


def _alike(titles: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return pairs of names that differ only in case, spaces, or how their accents are composed."""
    groups: dict[str, list[str]] = defaultdict(list)
    for title in titles:
        groups[" ".join(unicodedata.normalize("NFKC", title).casefold().split())].append(title)
    return tuple((names[0], other) for names in groups.values() for other in names[1:])


def _passed_over(path: Path) -> Mapping[str, int]:
    """Return how many files in a folder or zip of images are of no kind that is read, by suffix."""
    from sae.data.archive import open_tree
    from sae.data.images import is_image

    if not path.is_dir() and path.suffix.lower() != ".zip":
        return {}
    others = (name for name in open_tree(path).names if not is_image(name))
    suffixes = Counter(Path(name).suffix.lower().removeprefix(".") for name in others)
    return {suffix: number for suffix, number in suffixes.most_common() if suffix not in NO_SAMPLES}
