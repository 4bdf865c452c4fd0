"""Evaluation under shift: on the 95 corrupted versions of a split, and on samples of another data set."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sae.core.errors import ConfigError
from sae.core.progress import ProgressDisplay
from sae.core.task import SampleKind
from sae.data.batches import Preparation, evaluation_batches
from sae.data.corruptions import ALL_SETS, CorruptedImages, CorruptedSet
from sae.data.dataset import Dataset, Samples
from sae.measure.metrics import measure_all
from sae.measure.uncertainty import auroc, disagreement, entropy, fpr95
from sae.methods import Method
from sae.records.evaluation import ShiftedSet, ShiftEvaluation, ShiftReading, Split
from sae.training.evaluator import Scaling, member_outputs, predictive_at, split_outputs


def evaluate_shift(
    method: Method,
    dataset: Dataset,
    split_name: Split,
    prepare: Preparation,
    eval_exits: int,
    display: ProgressDisplay,
    sets: Sequence[CorruptedSet] = ALL_SETS,
    processes: int = 1,
) -> ShiftEvaluation:
    """Measure metrics on corrupted versions of a split, by default on all, with one set in memory at a time.

    Args:
        method: The trained method.
        dataset: The data.
        split_name: The split.
        prepare: The preparation of samples.
        eval_exits: K′ of the summary in the result.
        display: Where progress is shown.
        sets: The corruptions with their severities.
        processes: How many processes may corrupt images; the numbers do not depend on it.

    Returns:
        The mean and standard deviation over the sets, and each set, at every number of exits. The standard
        deviation is that of a sample (n − 1), like the one over seeds; it is left out if there is only one set.
        Metrics after temperature scaling use the temperature of the clean validation split, because nobody knows
        the shift beforehand. `auroc_entropy` measures how well predictive entropy detects corrupted samples.
    """
    split = dataset.split(split_name)
    check_images(dataset)
    targets = torch.from_numpy(split.targets)
    corrupted = CorruptedImages(split.inputs)
    names: tuple[Split, ...] = ("val", split_name)
    outputs_of = split_outputs(method, dataset, prepare, dict.fromkeys(names))
    clean, scaling = outputs_of[split_name], Scaling(method, dataset, outputs_of["val"])
    clean_entropy = {k: entropy(predictive_at(method, clean, k)) for k in method.exit_choices}
    measured: dict[int, list[ShiftedSet]] = {k: [] for k in method.exit_choices}
    with display.steps("corrupted sets", len(sets), 0) as on_step:
        for (name, severity), images in zip(sets, corrupted.each(sets, processes), strict=True):
            outputs = member_outputs(method, evaluation_batches(images, prepare))
            for k in method.exit_choices:
                predictive = predictive_at(method, outputs, k)
                metrics = measure_all(predictive, targets) | scaling.measure(predictive, targets, k)
                metrics["auroc_entropy"] = auroc(clean_entropy[k], entropy(predictive))
                measured[k].append(ShiftedSet(corruption=name, severity=severity, metrics=metrics))
            on_step()
    readings = tuple(_reading(k, found) for k, found in measured.items())
    return ShiftEvaluation(exits=eval_exits, num_sets=len(sets), readings=readings)


def _reading(eval_exits: int, sets: Sequence[ShiftedSet]) -> ShiftReading:
    """Summarise the sets at K′ exits by mean and sample standard deviation; one set has no deviation."""
    values = {key: [item.metrics[key] for item in sets] for key in sets[0].metrics}
    return ShiftReading(
        eval_exits=eval_exits,
        metrics={key: float(np.mean(found)) for key, found in values.items()},
        std_over_sets={key: float(np.std(found, ddof=1)) for key, found in values.items() if len(sets) > 1},
        sets=tuple(sets),
    )


def evaluate_ood(
    method: Method, dataset: Dataset, split_name: Split, other: Samples, prepare: Preparation, eval_exits: int
) -> dict[str, float]:
    """Measure how well uncertainty at K′ exits detects samples of another data set.

    Returns:
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
    """Refuse a data set without images of bytes, because only those can be corrupted."""
    kind = dataset.spec.kind
    if kind is not SampleKind.IMAGES:
        raise ConfigError(
            f"--shift needs images, but {dataset.name} is {kind.phrase}, for which no corruptions are defined: "
            "drop --shift"
        )
    if dataset.depth != 8:
        raise ConfigError(
            f"--shift needs images of 8 bits per channel, for which the corruptions are defined, but those of "
            f"{dataset.name} have {dataset.depth}: drop --shift"
        )


def check_same_shape(dataset: Dataset, other: Samples) -> None:
    """Refuse another data set whose samples the network cannot take."""
    if other.shape[1:] != dataset.spec.shape:
        raise ConfigError(
            f"samples of the other set must have the shape of {dataset.name}, {dataset.spec.shape}, "
            f"got {other.shape[1:]}"
        )
    if dataset.spec.kind is SampleKind.IMAGES and other.dtype != dataset.train.inputs.dtype:
        raise ConfigError(
            f"images of the other set must be {dataset.train.inputs.dtype} like those of {dataset.name}, "
            f"got {other.dtype}"
        )
