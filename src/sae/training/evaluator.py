"""Evaluation at every number of exits from one forward pass per sample: K is free."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from sae.core.predictive import Categorical, Gaussian, Predictive, aggregate
from sae.core.task import DataSpec
from sae.data.batches import Preparation, evaluation_batches
from sae.data.dataset import Dataset, Split
from sae.measure.calibration import calibrated, fit_temperature
from sae.measure.cost import measure_cost, measure_shipped_cost
from sae.measure.metrics import measure_all, reliability
from sae.measure.uncertainty import (
    disagreement,
    diversity,
    entropy,
    interval_metrics,
    risk_coverage,
    selection_loss,
)
from sae.methods import Method
from sae.records.run import at_exits

CURVE_POINTS = 100
"""Points that are kept of a risk–coverage curve."""


def member_outputs(method: Method, batches: Iterable[Tensor]) -> Tensor:
    """Raw outputs of all possible members over prepared batches, (sample, member, out), on the CPU."""
    method.eval()
    with torch.inference_mode():
        return torch.cat([method.member_outputs(x).float().cpu() for x in batches])


def evaluate_split(method: Method, dataset: Dataset, name: str, prepare: Preparation) -> dict[str, Any]:
    """Metrics and cost of one split at every K′: the `exits, metrics, by_exits` of an evaluation."""
    split = dataset.split(name)
    outputs = member_outputs(method, evaluation_batches(split.inputs, prepare))
    by_exits = [
        {**describe_exits(method, k, dataset.spec), "metrics": measure_members(method, outputs, split, k)}
        for k in method.exit_choices
    ]
    return {"exits": method.exits, "metrics": metrics_at(by_exits, method.exits), "by_exits": by_exits}


def validation_metrics(method: Method, dataset: Dataset, prepare: Preparation) -> dict[str, float]:
    """Metrics on the validation split at the trained K, with the temperature of the moment."""
    outputs = member_outputs(method, evaluation_batches(dataset.val.inputs, prepare))
    return measure_all(predictive_at(method, outputs, method.exits), torch.from_numpy(dataset.val.targets))


def predictive_at(method: Method, outputs: Tensor, eval_exits: int) -> Predictive:
    """What the members of K′ exits say together."""
    return aggregate(method.task, outputs, method.member_weights(eval_exits).cpu())


def measure_members(method: Method, outputs: Tensor, split: Split, eval_exits: int) -> dict[str, float]:
    """Quality and uncertainty at K′ exits.

    Beside the metrics: mean predictive `entropy` and member `disagreement`, the area under the
    risk–coverage curve by entropy (`aurc`), the diversity of the members where there are
    several, and for regression coverage and width of intervals.
    """
    weight, targets = method.member_weights(eval_exits).cpu(), torch.from_numpy(split.targets)
    measured = measure_predictive(aggregate(method.task, outputs, weight), targets)
    measured["disagreement"] = disagreement(method.task, outputs, weight).double().mean().item()
    among = diversity(method.task, outputs, weight)
    return measured | ({f"diversity_{key}": value for key, value in asdict(among).items()} if among else {})


def measure_predictive(predictive: Predictive, targets: Tensor) -> dict[str, float]:
    """Quality and uncertainty of a distribution, whoever is behind it."""
    doubt = entropy(predictive)
    measured = measure_all(predictive, targets)
    if isinstance(predictive, Gaussian):
        measured |= interval_metrics(predictive, targets)
    measured["entropy"] = doubt.double().mean().item()
    measured["aurc"] = risk_coverage(doubt, selection_loss(predictive, targets)).area
    return measured


def evaluate_calibrated(
    method: Method,
    dataset: Dataset,
    name: str,
    prepare: Preparation,
    by_exits: list[dict[str, Any]],
    eval_exits: int,
) -> dict[str, Any]:
    """What temperature scaling makes of a split: fitted on the validation split, for every K′ apart.

    Args:
        method: What predicts.
        dataset: Its data.
        name: The split to measure on.
        prepare: From samples to inputs.
        by_exits: The evaluation's; each item gets a `temperature` and its metrics, `calibrated`.
        eval_exits: K′ of what is returned: the `temperature` and `calibrated` of an evaluation.
    """
    fitted_on, split = dataset.val, dataset.split(name)
    fitting_outputs = member_outputs(method, evaluation_batches(fitted_on.inputs, prepare))
    outputs = member_outputs(method, evaluation_batches(split.inputs, prepare))
    targets = torch.from_numpy(split.targets)
    for item in by_exits:
        fitting = predictive_at(method, fitting_outputs, item["exits"])
        temperature = fit_temperature(fitting, torch.from_numpy(fitted_on.targets))
        tempered = calibrated(predictive_at(method, outputs, item["exits"]), temperature)
        item |= {"temperature": temperature, "calibrated": measure_predictive(tempered, targets)}
    chosen = at_exits(by_exits, eval_exits)
    return {key: chosen[key] for key in ("temperature", "calibrated")}


def describe_exits(method: Method, eval_exits: int, spec: DataSpec) -> dict[str, Any]:
    """What K′ exits mean for this network: which are used, and what it then costs, pruned and as shipped."""
    pruned = method.pruned(eval_exits)
    cost, shipped = measure_cost(pruned, spec.shape), measure_shipped_cost(pruned, spec.shape)
    return {
        "exits": eval_exits,
        "active": list(method.active_counts(eval_exits)),
        "params": cost.params,
        "flops": cost.flops,
        "shipped_params": shipped.params,
        "shipped_flops": shipped.flops,
    }


def metrics_at(by_exits: list[dict[str, Any]], eval_exits: int) -> dict[str, float]:
    """The metrics of one K′ among all."""
    found: dict[str, float] = at_exits(by_exits, eval_exits)["metrics"]
    return found


def curves(method: Method, split: Split, prepare: Preparation) -> dict[str, Any]:
    """What is drawn of a split, at the trained K and in `by_exits` at every K′; see `drawn_curves`."""
    outputs = member_outputs(method, evaluation_batches(split.inputs, prepare))
    targets = torch.from_numpy(split.targets)
    by_exits = {k: drawn_curves(predictive_at(method, outputs, k), targets) for k in method.exit_choices}
    return {**by_exits[method.exits], "by_exits": [{"exits": k, **drawn} for k, drawn in by_exits.items()]}


def drawn_curves(predictive: Predictive, targets: Tensor) -> dict[str, dict[str, list[float]]]:
    """Risk over coverage, and bins of reliability for classes."""
    risk = risk_coverage(entropy(predictive), selection_loss(predictive, targets))
    points = torch.linspace(0, len(targets) - 1, min(CURVE_POINTS, len(targets))).long()
    drawn = {"risk_coverage": {"coverage": risk.coverage[points].tolist(), "risk": risk.risk[points].tolist()}}
    if isinstance(predictive, Categorical):
        bins = asdict(reliability(predictive, targets))
        drawn["reliability"] = {key: value.tolist() for key, value in bins.items()}
    return drawn
