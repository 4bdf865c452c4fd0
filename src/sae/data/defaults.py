"""Settings that suit the user's own data, by the number of its training samples.

Small sets need many passes to be trained enough, large ones few. docs/defaults.md has the evidence: the
numbers here were chosen on one half of the sets of `benchmarks/defaults.py`, and reported on the other.
"""

import math
from pathlib import Path

from sae.config.run import RunConfig
from sae.config.settings import Layer
from sae.core.errors import DataError
from sae.core.task import SampleKind

UPDATES = 1000
"""Fewest updates of a training: a standard network takes 500, two inputs twice that."""
FEWEST_EPOCHS, MOST_EPOCHS = 20, 1000
SMALLEST_BATCH, LARGEST_BATCH, SAMPLES_PER_BATCH = 32, 256, 160
"""The batch grows with the samples, so that a large set does not take ever more updates."""
LEARNING_RATE = 3e-3
PATIENCE = 0.25
"""Share of the epochs after which a training without a better epoch stops."""
MOST_TIMES = 8
"""Most epochs of a training that still improves at its end, as a multiple of those that suit the size."""
SMALL, LARGE = 500, 5_000
"""Samples up to which `SMALLEST_SHARE` of data without splits is for training, and from which `LARGEST_SHARE` is."""
SMALLEST_SHARE, LARGEST_SHARE = 0.6, 0.8
CHUNK = 2**20


def suggest_training(num_samples: int) -> Layer:
    """Return the settings that suit this many training samples. They have no steps: more data never change them much.

    Training stops early, because a length that suits one small set overfits another of the same size with noisy labels.
    The inputs of SAE see different samples to the end, which regularises. Two inputs are two tasks for the same
    weights, though, and take twice the updates of a standard network; early stopping keeps the latter from overfitting.

    Example:
        >>> suggest_training(206)["train"]
        {'epochs': 143, 'batch_size': 32, 'lr': 0.003, 'patience': 36}
    """
    batch_size = min(max(num_samples // SAMPLES_PER_BATCH, SMALLEST_BATCH), LARGEST_BATCH)
    epochs = math.ceil(UPDATES / math.ceil(num_samples / batch_size))
    epochs = min(max(epochs, FEWEST_EPOCHS), MOST_EPOCHS)
    train = {"epochs": epochs, "batch_size": batch_size, "lr": LEARNING_RATE, "patience": patience_of(epochs)}
    method = {"name": "sae", "repeat_fraction": {"start": 0.0, "end": 0.0}}  # another method replaces this
    return {"train": train, "method": method}


def patience_of(epochs: int) -> int:
    """Return the epochs without a better one after which a training of this length stops."""
    return math.ceil(PATIENCE * epochs)


def at_length(config: RunConfig, epochs: int) -> RunConfig:
    """Return the same settings with another number of epochs, and the patience that suits it."""
    patience = config.train.patience and patience_of(epochs)
    return config.model_copy(update={"train": config.train.model_copy(update={"epochs": epochs, "patience": patience})})


def is_longer(found: RunConfig, asked: RunConfig) -> bool:
    """Return whether a run has the settings that were asked for, perhaps with 2, 4, … times the epochs."""
    times = found.train.epochs / asked.train.epochs
    return times in (1, 2, 4, MOST_TIMES) and found in (asked, at_length(asked, found.train.epochs))


def training_share(num_samples: int) -> float:
    """Return the share of data without splits that is for training; the rest is halved into validation and test.

    Few samples need large shares to be judged by, many do not.

    Example:
        >>> [round(training_share(number), 2) for number in (100, 500, 1581, 5000)]
        [0.6, 0.6, 0.7, 0.8]
    """
    place = math.log(min(max(num_samples, SMALL), LARGE) / SMALL) / math.log(LARGE / SMALL)
    return SMALLEST_SHARE + place * (LARGEST_SHARE - SMALLEST_SHARE)


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
    return count - math.ceil((1 - training_share(count)) * count)


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
