"""Settings that suit the user's own data, by the number of its training samples.

Small sets need many passes to be trained enough, large ones few. docs/defaults.md has the evidence: the
numbers here were chosen on one half of the sets of `benchmarks/defaults.py`, and reported on the other.
"""

import math
from pathlib import Path

from sae.config.settings import Layer
from sae.core.errors import DataError
from sae.core.task import SampleKind

LARGE = 5_000
"""With at least this many training samples, the paper's settings have enough updates."""
UPDATES = 1000
"""Fewest updates of a training, in batches of `BATCH_SIZE`: a standard network takes 500, two inputs twice that."""
FEWEST_EPOCHS, MOST_EPOCHS = 20, 1000
BATCH_SIZE, LEARNING_RATE = 32, 3e-3
PATIENCE = 0.25
"""Share of the epochs after which a training without a better epoch stops."""
TRAINING_SHARE = 0.6
"""Share of the training split if the data have no splits; the rest is halved into validation and test."""
CHUNK = 2**20


def suggest_training(num_samples: int) -> Layer:
    """Return the settings that suit this many training samples; none for many samples.

    Training stops early, because a length that suits one small set overfits another of the same size with noisy labels.
    The inputs of SAE see different samples to the end, which regularises. Two inputs are two tasks for the same
    weights, though, and take twice the updates of a standard network; early stopping keeps the latter from overfitting.

    Example:
        >>> suggest_training(206)["train"]
        {'epochs': 143, 'batch_size': 32, 'lr': 0.003, 'patience': 36}
    """
    if num_samples >= LARGE:
        return {}
    epochs = math.ceil(UPDATES / math.ceil(num_samples / BATCH_SIZE))
    epochs = min(max(epochs, FEWEST_EPOCHS), MOST_EPOCHS)
    patience = math.ceil(PATIENCE * epochs)
    return {
        "train": {"epochs": epochs, "batch_size": BATCH_SIZE, "lr": LEARNING_RATE, "patience": patience},
        "method": {"name": "sae", "repeat_fraction": {"start": 0.0, "end": 0.0}},  # another method replaces this
    }


def count_table(path: Path) -> int | None:
    """Return about how many training rows a table has, or None if it cannot be read; reading it reports why."""
    rows = _parquet_rows(path) if path.suffix.lower() == ".parquet" else _csv_rows(path)
    return None if rows is None else training_part(rows)


def count_npz(path: Path) -> int | None:
    """Return how many training images an `.npz` file has, or None if it has none; reading it reports why."""
    return _count_arrays(path, SampleKind.IMAGES)


def count_signals(path: Path) -> int | None:
    """Return how many training signals an `.npz` file has, or None if it has none; reading it reports why."""
    return _count_arrays(path, SampleKind.SIGNALS)


def _count_arrays(path: Path, kind: SampleKind) -> int | None:
    from sae.data.dataset import ALL
    from sae.data.npz import find_layout, open_member

    try:
        layout = find_layout(path, kind)
        name = None if layout is None else layout.samples.get("train", layout.samples.get(ALL))
        shape = () if name is None else open_member(path, name).shape
    except DataError:
        return None
    if layout is None or not shape:
        return None
    return training_part(shape[0]) if ALL in layout.samples else shape[0]


def count_folder(path: Path) -> int:
    """Return about how many training images a folder or zip has."""
    from sae.data.image_tree import layout_of

    return layout_of(path).num_training


def training_part(count: int) -> int:
    """Return about how many of these samples are for training, if the data have no splits."""
    return round(TRAINING_SHARE * count)


def _csv_rows(path: Path) -> int | None:
    """Count the lines behind the header, without reading them as a table."""
    lines, last = 0, b"\n"
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                lines, last = lines + chunk.count(b"\n"), chunk[-1:]
    except OSError:
        return None
    return max(0, lines + (last != b"\n") - 1)


def _parquet_rows(path: Path) -> int | None:
    try:
        from pyarrow import ArrowException, parquet

        try:
            return int(parquet.read_metadata(path).num_rows)
        except (ArrowException, OSError):
            return None
    except ModuleNotFoundError:
        return None
