"""Binding of a run to its data: a record of the training data, and a check that data read later are the same.

A run records a fingerprint of its samples, their splits, and the encodings, normalisation and standardisation
that were learnt from the training samples. For the user's own data it also records a hash of every sample,
so that a file whose rows were shuffled is split as before.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from sae.config.run import DataConfig
from sae.core.errors import DataError, DataWarning, RecordError
from sae.core.task import Moment, Regression
from sae.data.catalogue import CATALOGUE, load
from sae.data.checks import ROWS_AT_ONCE
from sae.data.dataset import (
    SPLITS,
    ColumnEncoding,
    Dataset,
    Gathered,
    Indices,
    Known,
    Normalisation,
    Split,
    SplitName,
)
from sae.data.locations import also_looking_in, find_own, root_of
from sae.data.profiling import profile_data
from sae.data.training_profile import DataProfile
from sae.records.run import RunRecord

Hashes = NDArray[np.uint64]
"""Hashes of samples with their targets, (sample,)."""


class Target(BaseModel):
    """The standardisation of real-valued targets."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mean: Moment
    std: Moment


class DataDescription(BaseModel):
    """The record of a run about its data, `data.json`.

    Attributes:
        fingerprint: SHA-256 over the hashes of all samples, in the order of the splits.
        samples: Number of samples in each split.
        root: The folder in which the data were found; it is searched again later.
        class_names: Names of the classes in the order of their labels, if they have names.
        normalisation: Normalisation of the inputs.
        target: Standardisation of real-valued targets.
        columns: Encodings of the columns of a table.
        profile: What the data look like; None for a run that was begun before it was recorded.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    fingerprint: str
    samples: dict[SplitName, int]
    root: str | None
    class_names: tuple[str, ...] | None
    normalisation: Normalisation
    target: Target | None
    columns: tuple[ColumnEncoding, ...] | None
    profile: DataProfile | None = Field(None, exclude_if=lambda profile: profile is None)


@dataclass(frozen=True)
class Binding:
    """The data of a run.

    Attributes:
        description: The recorded facts.
        hashes: Hashes of the samples of each split; None for data of the catalogue, whose files have a known MD5.
    """

    description: DataDescription
    hashes: Mapping[SplitName, Hashes] | None

    @classmethod
    def of(cls, dataset: Dataset, config: DataConfig) -> Self:
        """Describe a data set that has just been read."""
        hashes = {name: hash_samples(dataset.split(name)) for name in SPLITS}
        task = dataset.spec.task
        description = DataDescription(
            fingerprint=fingerprint(hashes),
            samples={name: len(hashes[name]) for name in SPLITS},
            root=root_of(config.name, is_own=config.name not in CATALOGUE),
            class_names=dataset.class_names,
            normalisation=dataset.normalisation,
            target=Target(mean=task.mean, std=task.std) if isinstance(task, Regression) else None,
            columns=dataset.columns,
            profile=profile_data(dataset, None if config.name in CATALOGUE else find_own(config.name)),
        )
        return cls(description, None if config.name in CATALOGUE else hashes)

    @classmethod
    def read(cls, record: RunRecord) -> Self | None:
        """Read the data of a run from its folder; None if the run was made before data were recorded."""
        if not record.has(record.DATA):
            return None
        description = record.read_model(record.DATA, DataDescription)
        if not record.has(record.SPLIT):
            return cls(description, None)
        arrays, _ = record.read_arrays(record.SPLIT)
        counts = {name: len(array) for name, array in arrays.items()}
        if counts != description.samples or any(array.dtype != np.uint64 for array in arrays.values()):
            raise RecordError(
                f"{record.path / record.SPLIT} does not belong to {record.DATA} beside it: {record.advice}"
            )
        return cls(description, {name: arrays[name].astype(np.uint64, copy=False) for name in SPLITS})

    def write(self, record: RunRecord) -> None:
        """Write the data of a run into its folder."""
        if self.hashes is not None:
            record.write_arrays(record.SPLIT, {name: self.hashes[name] for name in SPLITS})
        record.write_json(record.DATA, self.description.model_dump(mode="json"))

    @property
    def known(self) -> Known:
        """The facts that reading must not learn again."""
        return Known(self.description.columns, self.description.class_names)


@dataclass(frozen=True)
class Whereabouts:
    """The place of a run's data today.

    Attributes:
        path: The user's own file or folder; by default the path in the run's settings.
        allow_other: Whether to continue if the samples are not those of the run.
    """

    path: Path | None = None
    allow_other: bool = False


AS_BEFORE = Whereabouts()
GO_ON = (
    "bring it back, give its path with --data, or continue with --allow-other-data "
    "(options of evaluate, export, adaptive, bench and trim)"
)


def load_bound(
    config: DataConfig, seed: int, binding: Binding | None, where: Whereabouts = AS_BEFORE, advice: str = GO_ON
) -> Dataset:
    """Read the data of a run again: the same samples in the same splits, encoded and normalised as before.

    Args:
        config: The data settings of the run.
        seed: Seed of the run.
        binding: The recorded data; without it nothing can be checked.
        where: Where the data are today.
        advice: Advice for the error message if the data differ.
    """
    if where.path is not None:
        if config.name in CATALOGUE:
            raise DataError(f"--data is for your own files, but the run used {config.name}: give --data-root instead")
        config = config.model_copy(update={"name": str(where.path)})
    if binding is None:
        return load(config, seed)
    with also_looking_in(binding.description.root):
        dataset = load(config, seed, binding.known)
        if config.train_size is not None and binding.hashes is not None and not _is_same(dataset, binding):
            dataset = load(config.model_copy(update={"train_size": None}), seed, binding.known)
    return _as_recorded(_arranged(dataset, binding, config, where, advice), binding.description)


def warn_of_unbound(record: RunRecord) -> None:
    """Warn that a run is from before data were recorded."""
    warnings.warn(
        f"{record.path} was made before runs recorded their data: whether they are still the same is not checked",
        DataWarning,
        stacklevel=2,
    )


def hash_samples(split: Split) -> Hashes:
    """Return a hash of every sample and its target, (sample,)."""
    hashes = np.empty(len(split), np.uint64)
    for start in range(0, len(split), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        inputs = np.ascontiguousarray(split.inputs[part])
        contents = inputs.reshape(len(inputs), -1).view(np.uint8)
        targets = split.targets[part].astype(np.float64).reshape(len(inputs), -1).view(np.uint8)
        rows = np.concatenate([contents, targets], axis=1)
        digests = b"".join(blake2b(row.data, digest_size=8).digest() for row in rows)
        hashes[part] = np.frombuffer(digests, "<u8")
    return hashes


def fingerprint(hashes: Mapping[SplitName, Hashes]) -> str:
    """Return the SHA-256 of the samples of all splits, in their order."""
    digest = sha256()
    for name in SPLITS:
        digest.update(f"{name} {len(hashes[name])}\n".encode())
        digest.update(hashes[name].astype("<u8").tobytes())
    return digest.hexdigest()


def _arranged(dataset: Dataset, binding: Binding, config: DataConfig, where: Whereabouts, advice: str) -> Dataset:
    """Return the data set in the splits and the order of the run; refuse other samples unless they are allowed."""
    found = {split: hash_samples(dataset.split(split)) for split in SPLITS}
    if fingerprint(found) == binding.description.fingerprint:
        return dataset
    if binding.hashes is not None:
        wanted, present = _joined(binding.hashes), _joined(found)
        has_all = config.train_size is not None or len(wanted) == len(present)
        rows = _positions(wanted, present) if has_all else None
        if rows is not None:
            return _rearranged(dataset, _cut(rows, binding.description.samples))
    name, difference = config.name, _difference(found, binding, config.train_size)
    if not where.allow_other:
        raise DataError(f"{name} must hold the data that the run was trained on, but {difference}: {advice}")
    warnings.warn(f"{name} holds other data than the run was trained on: {difference}", DataWarning, stacklevel=2)
    return replace(_kept_apart(dataset, found, binding), is_other=True)


def _is_same(dataset: Dataset, binding: Binding) -> bool:
    found = {name: hash_samples(dataset.split(name)) for name in SPLITS}
    return fingerprint(found) == binding.description.fingerprint


def _as_recorded(dataset: Dataset, description: DataDescription) -> Dataset:
    if dataset.class_names != description.class_names:
        raise DataError(
            f"{dataset.name} must have the classes of the run, {list(description.class_names or ())}, "
            f"got {list(dataset.class_names or ())}"
        )
    spec, target = dataset.spec, description.target
    if target is not None:
        assert isinstance(spec.task, Regression), "only real values are standardised"
        spec = replace(spec, task=type(spec.task)(target.mean, target.std))
    return replace(dataset, spec=spec, normalisation=description.normalisation, columns=description.columns)


def _joined(hashes: Mapping[SplitName, Hashes]) -> Hashes:
    return np.concatenate([hashes[name] for name in SPLITS])


def _positions(wanted: Hashes, found: Hashes) -> Indices | None:
    """Return the position of each wanted hash among those found; None if one is not there, or not often enough."""
    by_wanted, by_found = np.argsort(wanted, kind="stable"), np.argsort(found, kind="stable")
    wanted, found = wanted[by_wanted], found[by_found]
    repetition = np.arange(len(wanted)) - np.searchsorted(wanted, wanted)
    places = np.searchsorted(found, wanted) + repetition
    if len(wanted) > len(found) or places.max(initial=0) >= len(found) or not np.array_equal(found[places], wanted):
        return None
    rows = np.empty(len(wanted), np.int64)
    rows[by_wanted] = by_found[places]
    return rows


def _cut(rows: Indices, samples: Mapping[SplitName, int]) -> dict[SplitName, Indices]:
    bounds = np.cumsum([samples[name] for name in SPLITS])[:-1]
    return dict(zip(SPLITS, np.split(rows, bounds), strict=True))


def _kept_apart(dataset: Dataset, found: Mapping[SplitName, Hashes], binding: Binding) -> Dataset:
    """Put every sample of the run into its old split, so that no training sample is tested; leave the others."""
    if binding.hashes is None:
        return dataset
    split_of = np.repeat(np.arange(len(SPLITS)), [len(found[name]) for name in SPLITS])
    everything = _joined(found)
    for number, name in enumerate(SPLITS):
        split_of[np.isin(everything, binding.hashes[name])] = number
    return _rearranged(dataset, {name: np.flatnonzero(split_of == number) for number, name in enumerate(SPLITS)})


def _difference(found: Mapping[SplitName, Hashes], binding: Binding, train_size: int | None) -> str:
    samples = binding.description.samples
    if binding.hashes is None:
        sizes = " + ".join(str(len(found[name])) for name in SPLITS)
        return (
            f"its samples differ ({sizes} in train, val and test; the run had {' + '.join(map(str, samples.values()))})"
        )
    everything, recorded = _joined(found), _joined(binding.hashes)
    new = int((~np.isin(everything, recorded)).sum())
    missing = int((~np.isin(recorded, everything)).sum())
    if train_size is not None and missing:
        return f"{missing:,} of the run's {len(recorded):,} samples are missing or changed"
    if not new and not missing:
        return (
            f"some samples are repeated more or less often ({len(everything):,} samples, {len(recorded):,} in the run)"
        )
    return f"of its {len(everything):,} samples {new:,} are new or changed, and {missing:,} of the run's are missing"


def _rearranged(dataset: Dataset, rows: Mapping[SplitName, Indices]) -> Dataset:
    parts = [dataset.split(name) for name in SPLITS]
    targets = np.concatenate([part.targets for part in parts])
    inputs = tuple(part.inputs for part in parts)
    given = [part.blocks for part in parts if part.blocks is not None]
    blocks = np.concatenate(given) if given else None
    train, val, test = (
        Split(Gathered(inputs, chosen), targets[chosen], None if blocks is None else blocks[chosen])
        for chosen in (rows[name] for name in SPLITS)
    )
    return replace(dataset, train=train, val=val, test=test)
