"""Comparison of a network with simple baselines: by losses of the same validation samples, beyond their noise.

A task has an entry in `COMPARED` and `SAID`, its metrics in `SAMPLE_METRICS`, and its models in `KINDS` of
`sae.training.baselines`.
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sae.analysis.candidates import Candidate
from sae.analysis.sample_metrics import SAMPLE_METRICS
from sae.core.errors import RecordError
from sae.core.objectives import TaskName, metric_label
from sae.records.baselines import Baselines, Measured
from sae.records.evaluation import Json
from sae.records.predictions import Numbers, Predictions
from sae.records.receipt import PICK, Receipt
from sae.records.study import StudyRecord

COMPARED: Mapping[TaskName, tuple[str, ...]] = {
    "classification": ("nll", "accuracy", "f1", "cc_ece"),
    "regression": ("rmse", "mse"),
}
"""Metrics of baselines, by task; the means of the first one's losses decide."""
SAID: Mapping[TaskName, tuple[str, ...]] = {"classification": ("nll", "accuracy"), "regression": ("rmse",)}
"""Metrics in the sentence."""
BEYOND_NOISE = 2.0
"""Standard errors by which a baseline must be better on the validation samples to be called so."""
MUCH = 0.1
"""Share by which a baseline's metric may be better within noise without a word."""
NETWORK = "this network"
MADE_WITH = "scikit-learn, CPU"
Labels = NDArray[np.number]


def losses_of_samples(task: TaskName, numbers: Numbers, targets: Labels) -> NDArray[np.float64]:
    """Return the losses whose means decide, (sample,): negative log-likelihoods or squared errors.

    Args:
        task: Decides what the numbers mean.
        numbers: Predictions as `sae.records.predictions` keeps them, (sample, [target,] number).
        targets: Labels or values, (sample[, target]).
    """
    losses: NDArray[np.float64] = SAMPLE_METRICS[task][COMPARED[task][0]].of_samples(numbers, targets).toarray()[:, 0]
    return losses


def metrics_of_samples(task: TaskName, numbers: Numbers, targets: Labels) -> dict[str, float]:
    """Return the metrics in which baselines are compared."""
    return {name: SAMPLE_METRICS[task][name].value(numbers, targets) for name in COMPARED[task]}


def measured(name: str, task: TaskName, val: tuple[Numbers, Labels], test: tuple[Numbers, Labels]) -> Measured:
    """Measure predictions against targets on both splits."""
    losses = tuple(float(f"{loss:.6g}") for loss in losses_of_samples(task, *val))  # six digits keep the file small
    return Measured(name=name, losses=losses, val=metrics_of_samples(task, *val), test=metrics_of_samples(task, *test))


def is_better(baseline: Measured, network: Measured) -> bool:
    """Return whether the mean loss is below a network's by more than the noise of the validation samples."""
    if len(network.losses) < 2:
        return False
    gain = np.array(network.losses) - np.array(baseline.losses)
    return bool(gain.mean() > BEYOND_NOISE * gain.std(ddof=1) / math.sqrt(len(gain)))


def verdict(baselines: Baselines, network: Measured) -> str | None:
    """Return a sentence if a baseline is better than a network on validation, beyond noise, otherwise None."""
    better = [baseline for baseline in baselines.found if is_better(baseline, network)]
    if not better:
        return None
    best = min(better, key=lambda baseline: np.mean(baseline.losses))
    name, said = f"{best.name[:1].upper()}{best.name[1:]}", [key for key in SAID[baselines.task] if key in network.val]
    val = ", ".join(f"{metric_label(key)} {_against(best.val, network.val, key)}" for key in said)
    test = ", ".join(_against(best.test, network.test, key) for key in said)
    return f"{name} is better here: {val} on validation ({test} on test)."


def doubt(baselines: Baselines, network: Measured) -> str | None:
    """Return a sentence if a baseline's metric is better than a network's by more than a tenth, noise or not."""
    name = COMPARED[baselines.task][0]
    best = min(baselines.found, key=lambda baseline: baseline.val[name])
    if network.val[name] <= (1 + MUCH) * best.val[name]:
        return None
    numbers = f"{metric_label(name)} {_against(best.val, network.val, name)} on validation"
    return f"{best.name[:1].upper()}{best.name[1:]} may be better here, within the noise of the rows: {numbers}."


def _against(own: Mapping[str, float], network: Mapping[str, float], key: str) -> str:
    return f"{_short(own[key])} against {_short(network[key])}"


def describe(baselines: Baselines, network: Measured) -> str:
    """Return one line that compares a network with the baselines."""
    name, found = COMPARED[baselines.task][0], baselines.found
    is_part = len(found) > 1 and baselines.num_fitted < baselines.num_training
    some = f" (on {baselines.num_fitted:,} of {baselines.num_training:,} samples)" if is_part else ""
    reached = [f"{item.name} {_short(item.val[name])}" for item in (network, *found)]
    start = f"{metric_label(name)} on validation: {reached[0]}"
    return ", ".join(filter(None, [start, *reached[1:], baselines.reason])) + some


def baselines_text(receipt: Receipt) -> str:
    """Return one line on what baselines reach on the test split, beside the network that was shipped."""
    name = COMPARED[receipt.task][0]
    both = [(NETWORK, receipt.rows[PICK].metrics), *((one.name, one.test) for one in receipt.baselines)]
    reached = ", ".join(f"{title} {_short(metrics[name])}" for title, metrics in both)
    return f"Simple baselines ({MADE_WITH}), {metric_label(name)} on test: {reached}."


def to_json(baselines: Baselines, network: Measured) -> Json:
    """Return the comparison as JSON, without the losses of samples."""
    name, both = COMPARED[baselines.task][0], (network, *baselines.found)
    return {
        "metric": name,
        "val": {item.name: item.val[name] for item in both},
        "test": {item.name: item.test[name] for item in both},
        "verdict": verdict(baselines, network),
        "doubt": doubt(baselines, network),
    }


def compare_with_baselines(study: StudyRecord, chosen: Candidate) -> tuple[Baselines, Measured] | None:
    """Return the baselines of a study beside a network of it; None if either was not kept."""
    try:
        baselines = study.read_baselines()
        kept = None if baselines is None else Predictions.read(chosen.shipped.record)
    except RecordError:  # never measured, or damaged: nothing is said
        return None
    if baselines is None or kept is None or kept.val.samples != baselines.samples:
        return None
    val, test = ((split.readings[chosen.eval_exits], split.targets) for split in (kept.val, kept.test))
    return baselines, measured(NETWORK, baselines.task, val, test)


def _short(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
