"""Evaluation at every number of exits K′ from one forward pass per sample."""

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
"""The number of recorded points of a risk–coverage curve."""


def member_outputs(method: Method, batches: Iterable[Tensor]) -> Tensor:
    """Return the raw outputs of all possible members for prepared batches, (sample, member, out), on the CPU."""
    method.eval()
    with torch.inference_mode():
        return torch.cat([method.member_outputs(x).float().cpu() for x in batches])


def evaluate_split(method: Method, dataset: Dataset, name: str, prepare: Preparation) -> dict[str, Any]:
    """Return the `exits, metrics, by_exits` of a split: its metrics and cost at every K′."""
    split = dataset.split(name)
    outputs = member_outputs(method, evaluation_batches(split.inputs, prepare))
    by_exits = [
        {**describe_exits(method, k, dataset.spec), "metrics": measure_members(method, outputs, split, k)}
        for k in method.exit_choices
    ]
    return {"exits": method.exits, "metrics": metrics_at(by_exits, method.exits), "by_exits": by_exits}


def validation_metrics(method: Method, dataset: Dataset, prepare: Preparation) -> dict[str, float]:
    """Return the metrics on the validation split at the trained K, with the current exit temperature."""
    outputs = member_outputs(method, evaluation_batches(dataset.val.inputs, prepare))
    return measure_all(predictive_at(method, outputs, method.exits), torch.from_numpy(dataset.val.targets))


def predictive_at(method: Method, outputs: Tensor, eval_exits: int) -> Predictive:
    """Return the joint prediction of the members at K′ exits."""
    return aggregate(method.task, outputs, method.member_weights(eval_exits).cpu())


def measure_members(method: Method, outputs: Tensor, split: Split, eval_exits: int) -> dict[str, float]:
    """Return metrics and uncertainties at K′ exits.

    The uncertainties are the mean predictive `entropy` and member `disagreement`, the area under
    the risk–coverage curve by entropy (`aurc`), the diversity of the members if there are
    several, and for regression the coverage and width of intervals.
    """
    weight, targets = method.member_weights(eval_exits).cpu(), torch.from_numpy(split.targets)
    measured = measure_predictive(aggregate(method.task, outputs, weight), targets)
    measured["disagreement"] = disagreement(method.task, outputs, weight).double().mean().item()
    among = diversity(method.task, outputs, weight)
    return measured | ({f"diversity_{key}": value for key, value in asdict(among).items()} if among else {})


def measure_predictive(predictive: Predictive, targets: Tensor) -> dict[str, float]:
    """Return the metrics and uncertainties of any predictive distribution."""
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
    """Evaluate a split after temperature scaling, fitted on the validation split for each K′ separately.

    Args:
        method: The trained method.
        dataset: The data.
        name: The split to measure on.
        prepare: The preparation of samples.
        by_exits: The items of an evaluation; each gets its `temperature` and `calibrated` metrics.
        eval_exits: The K′ of the `temperature` and `calibrated` metrics to return.
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
    """Return which exits a network uses at K′ and what it then costs, pruned and as shipped."""
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
    """Return the metrics at one K′."""
    found: dict[str, float] = at_exits(by_exits, eval_exits)["metrics"]
    return found


def curves(method: Method, split: Split, prepare: Preparation) -> dict[str, Any]:
    """Return the curves of a split at the trained K and, in `by_exits`, at every K′; see `drawn_curves`."""
    outputs = member_outputs(method, evaluation_batches(split.inputs, prepare))
    targets = torch.from_numpy(split.targets)
    by_exits = {k: drawn_curves(predictive_at(method, outputs, k), targets) for k in method.exit_choices}
    return {**by_exits[method.exits], "by_exits": [{"exits": k, **drawn} for k, drawn in by_exits.items()]}


def drawn_curves(predictive: Predictive, targets: Tensor) -> dict[str, dict[str, list[float]]]:
    """Return the risk–coverage curve and, for classes, the bins of the reliability diagram."""
    risk = risk_coverage(entropy(predictive), selection_loss(predictive, targets))
    points = torch.linspace(0, len(targets) - 1, min(CURVE_POINTS, len(targets))).long()
    drawn = {"risk_coverage": {"coverage": risk.coverage[points].tolist(), "risk": risk.risk[points].tolist()}}
    if isinstance(predictive, Categorical):
        bins = asdict(reliability(predictive, targets))
        drawn["reliability"] = {key: value.tolist() for key, value in bins.items()}
    return drawn
