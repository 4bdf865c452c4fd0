"""Signals in `.npz` files: (sample, channel, length), or (sample, length) for one channel."""

from pathlib import Path

import numpy as np

from sae.config.run import DataConfig
from sae.core.errors import DataError
from sae.core.task import DataSpec, SampleKind
from sae.data.dataset import ALL, Array, Dataset, Features, Known, signal_normalisation, some_rows, task_of
from sae.data.locations import find_own
from sae.data.npz import Member, find_layout, named_targets, open_member, samples_of_split
from sae.data.splits import split_parts


def kind_of_samples(path: Path, given: SampleKind | None) -> SampleKind:
    """Return whether a file holds images or signals; refuse a file that could hold either.

    The names of its arrays decide. Arrays named x hold images if they are 4-D, or 3-D in uint8.

    Args:
        path: An `.npz` file.
        given: The kind that the user gave, if any.
    """
    if given is SampleKind.TABLE:
        raise DataError(f"an .npz file holds images or signals, got --kind table for {path}")
    layout = find_layout(path, given)
    kind = given or (layout and layout.pair.kind)
    if kind or layout is None:
        return kind or SampleKind.IMAGES  # the reader of images reports what is missing
    first = open_member(path, next(iter(layout.samples.values())))
    if len(first.shape) == 4 or (len(first.shape) == 3 and first.dtype == np.uint8):
        return SampleKind.IMAGES
    raise DataError(
        f"{path} must say what its samples are: {first.name} of shape {first.shape} in {first.dtype} may be signals "
        f"(sample, channel, length) or images. Name the array signals or images, or add --kind signals or --kind images"
    )


def read_own(config: DataConfig, _seed: int, known: Known | None = None) -> Dataset:
    """Read the user's own file; its training split sets the normalisation and the scale of real targets.

    Args:
        config: The path and the task.
        known: Classes of an earlier reading, if labels are texts; by default those of the training split.
    """
    path = find_own(config.name)
    layout = find_layout(path, SampleKind.SIGNALS)
    if layout is None:
        raise DataError(
            f"{path} must hold train_signals, train_labels, test_signals and test_labels, or signals and labels"
        )
    layout.check_complete()
    inputs = {part: read_signals(open_member(path, name)) for part, name in layout.samples.items()}
    raw = {part: open_member(path, name).read() for part, name in layout.labels.items()}
    places = {part: f"{name} of {path}" for part, name in layout.labels.items()}
    targets, class_names = named_targets(raw, config.task, places, known)
    for part, signals in inputs.items():
        if len(signals) != len(targets[part]):
            raise DataError(
                f"there must be one label for each signal, got {len(targets[part])} for {len(signals)} signals "
                f"in {places[part]}"
            )
    train, val, test = (
        some_rows(inputs[part], targets[part], rows)
        for part, rows in split_parts(targets, config.split_seed, class_names, path).values()
    )
    task = task_of(config.task, train.targets, class_names, places.get("train", places.get(ALL, "")))
    spec = DataSpec(train.inputs.shape[1:], task)
    normalisation = signal_normalisation(train.inputs[:])
    return Dataset(config.name, spec, normalisation, train, val, test, class_names)


def read_samples(path: Path) -> Array:
    """Read the test signals of a file, or all of a file without splits, (sample, channel, length)."""
    name, _ = samples_of_split(path, "test")
    return read_signals(open_member(path, name))


def read_signals(member: Member) -> Features:
    """Read an array of signals in float64, (sample, channel, length); refuse values that are missing."""
    where = f"{member.name} of {member.path}"
    is_number = np.issubdtype(member.dtype, np.integer) or np.issubdtype(member.dtype, np.floating)
    if not is_number or len(member.shape) not in (2, 3) or 0 in member.shape:
        raise DataError(
            f"signals must be numbers, (sample, channel, length) or (sample, length), "
            f"got {member.dtype} of shape {member.shape} in {where}"
        )
    array = member.read()
    signals = np.ascontiguousarray(array if array.ndim == 3 else array[:, None], np.float64)
    check_finite(signals, where)
    return signals


def check_finite(signals: Array, where: str) -> None:
    """Refuse signals, (sample, channel, length), with a value that is missing or infinite, and name its place."""
    wrong = np.argwhere(~np.isfinite(signals))
    if len(wrong):
        sample, channel, step = wrong[0].tolist()
        raise DataError(
            f"signals must be finite, got {signals[sample, channel, step]} in sample {sample}, channel {channel}, "
            f"time step {step} of {where}, counted from 0: remove or impute such values"
        )
