"""Predictions of a finished run for every sample, to compare it with others."""

import hashlib
from pathlib import Path

import torch
from torch import Tensor

from sae.core.predictive import aggregate, as_numbers
from sae.core.task import Classification
from sae.data.batches import Preparation, evaluation_batches
from sae.data.binding import AS_BEFORE, Whereabouts, hash_samples
from sae.data.dataset import Dataset
from sae.data.dataset import Split as Samples
from sae.methods import Method
from sae.records.evaluation import Split
from sae.records.predictions import Numbers, Predictions, SplitPredictions
from sae.records.run import RunRecord
from sae.training.evaluator import member_outputs, predictive_at
from sae.training.run import preparation, restore
from sae.training.trainer import torch_threads


def keep_predictions(run: Path, where: Whereabouts = AS_BEFORE) -> None:
    """Add the predictions of a finished run for validation and test to its folder, unless they are there.

    Args:
        run: The run folder.
        where: Where the data are today; other data than those of the run are refused.
    """
    record = RunRecord.open(run)
    if record.has(record.PREDICTIONS):
        return
    settings = record.read_config().train
    with torch_threads(settings.threads):
        method, dataset = restore(record, where=Whereabouts(where.path))
        prepare = preparation(dataset, settings.device)
        predictions = Predictions(
            "classification" if isinstance(dataset.spec.task, Classification) else "regression",
            _predict(method, dataset, "val", prepare),
            _predict(method, dataset, "test", prepare),
        )
    with record.lock():
        predictions.write(record)


def _predict(method: Method, dataset: Dataset, name: Split, prepare: Preparation) -> SplitPredictions:
    split = dataset.split(name)
    outputs = member_outputs(method, evaluation_batches(split.inputs, prepare))
    return SplitPredictions(
        hash_of(split),
        split.targets,
        {k: as_numbers(predictive_at(method, outputs, k)).numpy() for k in method.exit_choices},
        _members(method, outputs) if method.num_streams > 1 else None,
    )


def hash_of(split: Samples) -> str:
    """Return a hash of the samples of a split, in their order."""
    return hashlib.sha256(hash_samples(split).astype("<u8").tobytes()).hexdigest()


def _members(method: Method, outputs: Tensor) -> Numbers:
    """Return the prediction of each network of a deep ensemble, (member, sample, number)."""
    alone = torch.eye(outputs.shape[1])
    return torch.stack([as_numbers(aggregate(method.task, outputs, weight)) for weight in alone]).numpy()
