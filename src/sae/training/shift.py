"""Evaluation under shift: the 95 corrupted versions of a split, and samples of another set."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sae.core.errors import ConfigError
from sae.data.batches import Preparation, evaluation_batches
from sae.data.corrupted import CorruptedImages
from sae.data.corruptions import CORRUPTIONS, SEVERITIES
from sae.data.dataset import Dataset, Samples
from sae.measure.metrics import measure_all
from sae.measure.uncertainty import auroc, disagreement, entropy, fpr95
from sae.methods import Method
from sae.training.evaluator import member_outputs, predictive_at
from sae.training.progress import ProgressDisplay

CorruptedSet = tuple[str, int]
"""A corruption's name and severity."""
ALL_SETS: tuple[CorruptedSet, ...] = tuple((name, severity) for name in CORRUPTIONS for severity in SEVERITIES)
OBJECTIVE_SETS: tuple[CorruptedSet, ...] = (
    *(("gaussian_noise", severity) for severity in (2, 4)),
    *(("defocus_blur", severity) for severity in (2, 4)),
    *(("fog", severity) for severity in (2, 4)),
    *(("jpeg_compression", severity) for severity in (2, 4)),
)
"""A corruption of each family at a mild and a harsh severity: what objectives such as `nll@shift` are measured on."""


def evaluate_shift(
    method: Method,
    dataset: Dataset,
    split_name: str,
    prepare: Preparation,
    eval_exits: int,
    display: ProgressDisplay,
    sets: Sequence[CorruptedSet] = ALL_SETS,
) -> dict[str, Any]:
    """Metrics on corrupted versions of a split, by default on all, one set in memory at a time.

    Returns:
        The mean and the standard deviation over all sets and every set by itself, at K′ exits and in
        `by_exits` at every number of exits. The deviation is that of a sample (n − 1), as the one over
        seeds is that it stands beside; one set has none. `auroc_entropy` is how well predictive entropy tells the
        corrupted samples from the clean ones.
    """
    split = dataset.split(split_name)
    check_images(dataset)
    targets = torch.from_numpy(split.targets)
    corrupted = CorruptedImages(split.inputs)
    clean = member_outputs(method, evaluation_batches(split.inputs, prepare))
    clean_entropy = {k: entropy(predictive_at(method, clean, k)) for k in method.exit_choices}
    rows: dict[int, list[dict[str, Any]]] = {k: [] for k in method.exit_choices}
    with display.steps("corrupted sets", len(sets), 0) as on_step:
        for name, severity in sets:
            outputs = member_outputs(method, evaluation_batches(corrupted.get(name, severity), prepare))
            for k in method.exit_choices:
                predictive = predictive_at(method, outputs, k)
                metrics = measure_all(predictive, targets)
                metrics["auroc_entropy"] = auroc(clean_entropy[k], entropy(predictive))
                rows[k].append({"corruption": name, "severity": severity, "metrics": metrics})
            on_step()
    return {
        "exits": eval_exits,
        "sets": len(sets),
        "metrics": _means(rows[eval_exits]),
        "std_over_sets": _stds(rows[eval_exits]),
        "by_exits": [
            {
                "exits": k,
                "metrics": _means(rows[k]),
                "std_over_sets": _stds(rows[k]),
                "by_set": rows[k],
            }
            for k in method.exit_choices
        ],
        "by_set": rows[eval_exits],
    }


def evaluate_ood(
    method: Method, dataset: Dataset, split_name: str, other: Samples, prepare: Preparation, eval_exits: int
) -> dict[str, float]:
    """How well uncertainty tells samples of another set from a split's own, at K′ exits.

    AUROC and the false-positive rate at 95 % true positives, by predictive entropy and by
    the disagreement of the members.
    """
    weight = method.member_weights(eval_exits).cpu()

    def scores(samples: Samples) -> dict[str, Tensor]:
        outputs = member_outputs(method, evaluation_batches(samples, prepare))
        doubt = entropy(predictive_at(method, outputs, eval_exits))
        return {"entropy": doubt, "disagreement": disagreement(method.task, outputs, weight)}

    own, others = scores(dataset.split(split_name).inputs), scores(other)
    measures = {"auroc": auroc, "fpr95": fpr95}
    return {
        f"{measure}_{score}": compute(own[score], others[score])
        for score in own
        for measure, compute in measures.items()
    }


def check_images(dataset: Dataset) -> None:
    """Only images can be corrupted."""
    if len(dataset.spec.shape) != 3:
        raise ConfigError(
            f"--shift is for images, however {dataset.name} is a table: corruptions of it are not defined"
        )


def check_same_shape(dataset: Dataset, other: Samples) -> None:
    """Another set can be told from a run's own only by a network that takes it."""
    if other.shape[1:] != dataset.spec.shape:
        raise ConfigError(
            f"samples of the other set must be shaped {dataset.spec.shape} like {dataset.name}, got {other.shape[1:]}"
        )


def _means(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {key: float(np.mean(values)) for key, values in _by_metric(rows).items()}


def _stds(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Standard deviations over sets, seen as a sample of all that may happen to images; empty for one set."""
    return {key: float(np.std(values, ddof=1)) for key, values in _by_metric(rows).items() if len(rows) > 1}


def _by_metric(rows: list[dict[str, Any]]) -> dict[str, list[float]]:
    return {key: [row["metrics"][key] for row in rows] for key in rows[0]["metrics"]}
