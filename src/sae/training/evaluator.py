"""Evaluation at every number of exits from one forward pass per sample: K is free."""

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from sae.data.batches import Preparation, evaluation_batches
from sae.data.dataset import Dataset, Split
from sae.measure.cost import measure_cost
from sae.measure.metrics import measure_all, reliability
from sae.methods import Method
from sae.predictive import Categorical, Gaussian, Predictive, aggregate
from sae.task import DataSpec


def predict(method: Method, split: Split, prepare: Preparation, exits: tuple[int, ...]) -> dict[int, Predictive]:
    """Predictive distributions over a whole split, for each K′ in `exits`, on the CPU."""
    method.eval()
    weights = {k: method.member_weights(k) for k in exits}
    parts: dict[int, list[Predictive]] = {k: [] for k in exits}
    with torch.inference_mode():
        for x in evaluation_batches(split, prepare):
            outputs = method.member_outputs(x)
            for k in exits:
                parts[k].append(aggregate(method.task, outputs, weights[k]))
    return {k: _join(batches) for k, batches in parts.items()}


def evaluate_split(method: Method, dataset: Dataset, name: str, prepare: Preparation) -> dict[str, Any]:
    """Metrics and cost of one split at every K′: the `exits, metrics, by_exits` of a report."""
    split = dataset.split(name)
    targets = torch.from_numpy(split.targets)
    predictives = predict(method, split, prepare, method.exit_choices)
    by_exits = [
        {**describe_exits(method, k, dataset.spec), "metrics": measure_all(predictive, targets)}
        for k, predictive in predictives.items()
    ]
    return {
        "exits": method.max_exits,
        "metrics": metrics_at(by_exits, method.max_exits),
        "by_exits": by_exits,
    }


def validation_metrics(method: Method, dataset: Dataset, prepare: Preparation) -> dict[str, float]:
    """Metrics on the validation split at the trained K, with the temperature of the moment."""
    predictive = predict(method, dataset.val, prepare, (method.max_exits,))[method.max_exits]
    return measure_all(predictive, torch.from_numpy(dataset.val.targets))


def describe_exits(method: Method, max_exits: int, spec: DataSpec) -> dict[str, Any]:
    """What K′ exits mean for this network: which are used, and what it then costs."""
    cost = measure_cost(method.pruned(max_exits), spec.shape)
    return {
        "exits": max_exits,
        "active": list(method.active_counts(max_exits)),
        "params": cost.params,
        "flops": cost.flops,
    }


def metrics_at(by_exits: list[dict[str, Any]], max_exits: int) -> dict[str, float]:
    """The metrics of one K′ among all."""
    found: dict[str, float] = next(item["metrics"] for item in by_exits if item["exits"] == max_exits)
    return found


def reliability_curve(method: Method, split: Split, prepare: Preparation) -> dict[str, list[float]]:
    """Bins of a reliability diagram at the trained K; empty for regression."""
    predictive = predict(method, split, prepare, (method.max_exits,))[method.max_exits]
    if not isinstance(predictive, Categorical):
        return {}
    bins = reliability(predictive, torch.from_numpy(split.targets))
    return {key: value.tolist() for key, value in asdict(bins).items()}


def _join(batches: list[Predictive]) -> Predictive:
    first = batches[0]
    if isinstance(first, Categorical):
        return Categorical(_cat([part.log_probs for part in batches if isinstance(part, Categorical)]))
    gaussians = [part for part in batches if isinstance(part, Gaussian)]
    return Gaussian(_cat([part.mean for part in gaussians]), _cat([part.variance for part in gaussians]))


def _cat(tensors: list[Tensor]) -> Tensor:
    return torch.cat(tensors).cpu()
