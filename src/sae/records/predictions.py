"""Predictions for every sample of a run, kept compressed so that runs can be compared sample by sample.

A distribution is an array (…, sample, number): the log-probabilities of the classes in float32, or the
mean and the variance of a real value, in the units of the data, in float64. Nothing is rounded: metrics
of kept predictions equal those that the run recorded.
"""

import io
import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import RecordError
from sae.core.objectives import TaskName
from sae.core.reading import read_file
from sae.records.evaluation import SPLITS, Split
from sae.records.run import RunRecord

Numbers = NDArray[np.floating]
TASKS: tuple[TaskName, ...] = ("classification", "regression")
PACKED_DAMAGES = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError),
    *(ValueError, KeyError, TypeError, EOFError, OverflowError, SyntaxError, RecursionError),
    *(RuntimeError, NotImplementedError, MemoryError),
)
"""Exceptions of numpy and zipfile for a damaged file; a header may claim more than fits into memory."""
MEMBERS, TARGETS, SAMPLES, TASK = "members", "targets", "samples", "task"


@dataclass(frozen=True)
class SplitPredictions:
    """Predictions of a run for the samples of a split.

    Attributes:
        samples: A hash of the samples in their order; two runs with the same one can be compared.
        targets: Labels or values, (sample,).
        readings: The joint prediction at each number of exits K′, (sample, number).
        members: The predictions of the networks of a deep ensemble, (member, sample, number); None for other methods.
    """

    samples: str
    targets: NDArray[np.number]
    readings: Mapping[int, Numbers]
    members: Numbers | None = None


@dataclass(frozen=True)
class Predictions:
    """Predictions of a run on validation and test."""

    task: TaskName
    val: SplitPredictions
    test: SplitPredictions

    def write(self, record: RunRecord) -> None:
        """Write them into the folder of their run."""
        arrays: dict[str, NDArray[np.generic]] = {TASK: np.array(self.task)}
        for name, split in (("val", self.val), ("test", self.test)):
            arrays |= {f"{name}/{SAMPLES}": np.array(split.samples), f"{name}/{TARGETS}": split.targets}
            arrays |= {f"{name}/{eval_exits}": values for eval_exits, values in split.readings.items()}
            if split.members is not None:
                arrays[f"{name}/{MEMBERS}"] = split.members
        record.write_bytes(record.PREDICTIONS, _packed(arrays))

    @classmethod
    def read(cls, record: RunRecord) -> Self:
        """Read them from the folder of their run; if they were not kept, the error says how to add them."""
        path = record.path / record.PREDICTIONS
        if not record.has(record.PREDICTIONS):
            raise RecordError(
                f"{record.path} has no {record.PREDICTIONS}: add it with "
                f"`sae evaluate {record.path} --keep-predictions`, or train with --keep-predictions"
            )
        try:
            with np.load(io.BytesIO(read_file(str(path))), allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
            task = str(arrays.pop(TASK))
            if task not in TASKS:
                raise ValueError(f"the task must be one of {', '.join(TASKS)}, got {task!r}")
            val, test = (_split_of(arrays, name) for name in SPLITS)
        except OSError as error:
            raise record.unreadable(record.PREDICTIONS, error) from None
        except PACKED_DAMAGES as error:
            again = f"`sae evaluate {record.path} --keep-predictions`"
            raise RecordError(f"{path} is damaged ({error}): delete it, and add it with {again}") from None
        return cls("classification" if task == "classification" else "regression", val, test)


def _split_of(arrays: Mapping[str, NDArray[np.generic]], name: Split) -> SplitPredictions:
    own = {key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")}
    samples, targets, members = own.pop(SAMPLES), own.pop(TARGETS), own.pop(MEMBERS, None)
    numbers = {key: _numbers(array) for key, array in own.items()}
    if not numbers or any(len(array) != len(targets) for array in numbers.values()):
        raise ValueError(f"each reading of {name} must have {len(targets)} samples")
    return SplitPredictions(
        str(samples),
        targets.astype(np.float64 if np.issubdtype(targets.dtype, np.floating) else np.int64),
        {int(key): array for key, array in numbers.items()},
        None if members is None else _numbers(members),
    )


def _numbers(array: NDArray[np.generic]) -> Numbers:
    if not np.issubdtype(array.dtype, np.floating):
        raise ValueError(f"predictions must be floats, got {array.dtype}")
    return array.astype(np.float64)


def _packed(arrays: Mapping[str, NDArray[np.generic]]) -> bytes:
    """Return named arrays as the content of a compressed `.npz` file, the same bytes for the same arrays."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asarray(array, order="C"), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy")  # without the time of day
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content.getvalue())
    return target.getvalue()
