"""Evaluation at every number of exits K′: metrics from one forward pass per sample, costs, and parts of the network."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

import torch
from torch import Tensor

from sae.analysis.temperature import Temperature
from sae.backbones import MemberNetwork
from sae.config.methods import MethodSettings
from sae.core.objectives import ERROR_CORRELATION
from sae.core.predictive import Categorical, Gaussian, Predictive, aggregate
from sae.core.task import DataSpec
from sae.data.batches import Preparation, evaluation_batches
from sae.data.dataset import Dataset, Split
from sae.measure.calibration import calibrated, cross_calibrated, fit_temperature
from sae.measure.cost import Cost, PartCost, measure_cost, measure_shipped_cost
from sae.measure.metrics import measure_all, measure_scaled, one_by_one, reliability, weighted_nll
from sae.measure.uncertainty import (
    disagreement,
    diversity,
    entropy,
    error_correlation,
    interval_metrics,
    risk_coverage,
    selection_loss,
)
from sae.methods import Method
from sae.records.evaluation import (
    CurveReading,
    Evaluation,
    PartCosts,
    Reading,
    Reliability,
    RiskCoverage,
    SplitCurves,
)
from sae.records.evaluation import Split as SplitName
from sae.records.network import Member, Network, PrunedReading

RECORDED_POINTS = 100
"""The number of recorded points of a risk–coverage curve."""


def member_outputs(method: Method, batches: Iterable[Tensor]) -> Tensor:
    """Return the raw outputs of all possible members for prepared batches, (sample, member, out), on the CPU.

    The batches are those of a whole split in order; random draws do not depend on their sizes.
    """
    method.eval()
    outputs, first = [], 0
    with torch.inference_mode():
        for x in batches:
            outputs.append(method.outputs_from(first, x).float().cpu())
            first += len(x)
        return torch.cat(outputs)


Outputs = Mapping[SplitName, Tensor]
"""Raw outputs of all possible members on some splits, (sample, member, out)."""


def split_outputs(method: Method, dataset: Dataset, prepare: Preparation, names: Iterable[SplitName]) -> Outputs:
    """Return the raw outputs of all possible members on some splits."""
    return {name: member_outputs(method, evaluation_batches(dataset.split(name).inputs, prepare)) for name in names}


class Scaling:
    """Temperatures fitted on the validation split, and the metrics of a network after scaling by them.

    The validation split itself is scaled in a cross-validation: each sample with a temperature that was fitted
    without it. So metrics after scaling can be used to choose among networks.

    Args:
        method: The trained method.
        dataset: The data.
        outputs: The outputs of its members on the validation split.
    """

    def __init__(self, method: Method, dataset: Dataset, outputs: Tensor) -> None:
        self.method, self.dataset, self.outputs = method, dataset, outputs
        self._fitted: dict[int, Temperature] = {}

    @property
    def targets(self) -> Tensor:
        """The targets of the validation split."""
        return torch.from_numpy(self.dataset.val.targets)

    def predictive(self, eval_exits: int) -> Predictive:
        """Return the joint prediction of the members at K′ exits on the validation split."""
        return predictive_at(self.method, self.outputs, eval_exits)

    def fitted(self, eval_exits: int) -> Temperature:
        """Return the temperature at K′ exits."""
        if eval_exits not in self._fitted:
            self._fitted[eval_exits] = fit_temperature(self.predictive(eval_exits), self.targets)
        return self._fitted[eval_exits]

    def measure(self, predictive: Predictive, targets: Tensor, eval_exits: int) -> dict[str, float]:
        """Return the metrics after scaling of predictions at K′ exits, for samples that were not used to fit."""
        return measure_scaled(calibrated(predictive, self.fitted(eval_exits).value), targets)

    def measure_held_out(self, eval_exits: int) -> dict[str, float]:
        """Return the metrics after scaling on the validation split, cross-validated."""
        return measure_scaled(cross_calibrated(self.predictive(eval_exits), self.targets), self.targets)


def evaluate_split(
    scaling: Scaling, name: SplitName, outputs: Outputs, costs: Sequence[Reading] | None = None
) -> Evaluation:
    """Evaluate a split at every K′.

    Args:
        scaling: The trained method, the data, and the temperatures.
        name: The split.
        outputs: The outputs of the members on this split.
        costs: The result of `measure_costs`, if it was called already.
    """
    method, dataset = scaling.method, scaling.dataset
    readings = [
        reading.model_copy(update={"metrics": measure_split(scaling, name, outputs, reading.eval_exits), "parts": ()})
        for reading in costs or measure_costs(method, dataset.spec)
    ]
    return Evaluation(exits=method.exits, readings=tuple(readings))


def measure_split(scaling: Scaling, name: SplitName, outputs: Outputs, eval_exits: int) -> dict[str, float]:
    """Return metrics and uncertainties of a split at K′ exits, also after temperature scaling."""
    method, split = scaling.method, scaling.dataset.split(name)
    measured = measure_members(method, outputs[name], split, eval_exits)
    if name == "val":
        return measured | scaling.measure_held_out(eval_exits)
    predictive = predictive_at(method, outputs[name], eval_exits)
    return measured | scaling.measure(predictive, torch.from_numpy(split.targets), eval_exits)


def validation_metrics(method: Method, dataset: Dataset, outputs: Tensor) -> dict[str, float]:
    """Return the metrics of member outputs on the validation split at the trained K, with the current temperature."""
    return measure_all(predictive_at(method, outputs, method.exits), torch.from_numpy(dataset.val.targets))


def best_exits(method: Method, val: Split, prepare: Preparation, weights: Tensor | None = None) -> int:
    """Return the K′ with the lowest NLL on validation samples, which may have weights; of equals the smallest."""
    outputs, targets = member_outputs(method, evaluation_batches(val.inputs, prepare)), torch.from_numpy(val.targets)
    return min(
        method.exit_choices,
        key=lambda exits: weighted_nll(predictive_at(method, outputs, exits), targets, weights),
    )


def predictive_at(method: Method, outputs: Tensor, eval_exits: int) -> Predictive:
    """Return the joint prediction of the members at K′ exits."""
    return aggregate(method.task, outputs, method.member_weights(eval_exits).cpu())


def measure_members(method: Method, outputs: Tensor, split: Split, eval_exits: int) -> dict[str, float]:
    """Return metrics and uncertainties at K′ exits.

    The uncertainties are the mean predictive `entropy` and member `disagreement`, the area under
    the risk–coverage curve by entropy (`aurc`), the diversity of the members and the correlation of
    their errors (`error_correlation`) if there are several, and for regression the coverage and width of intervals.
    """
    weight, targets = method.member_weights(eval_exits).cpu(), torch.from_numpy(split.targets)
    measured = measure_predictive(aggregate(method.task, outputs, weight), targets)
    measured["disagreement"] = disagreement(method.task, outputs, weight).double().mean().item()
    among = diversity(method.task, outputs, weight)
    measured |= {f"diversity_{key}": value for key, value in asdict(among).items()} if among else {}
    correlation = error_correlation(method.task, outputs, weight, targets)
    return measured | ({} if correlation is None else {ERROR_CORRELATION: correlation})


def measure_predictive(predictive: Predictive, targets: Tensor) -> dict[str, float]:
    """Return the metrics and uncertainties of any predictive distribution."""
    doubt = entropy(predictive)
    measured = measure_all(predictive, targets)
    single, values = one_by_one(predictive, targets)
    if isinstance(single, Gaussian):
        measured |= interval_metrics(single, values)
    measured["entropy"] = doubt.double().mean().item()
    measured["aurc"] = risk_coverage(doubt, selection_loss(predictive, targets)).area
    return measured


def scale_temperature(scaling: Scaling, name: SplitName, outputs: Outputs, evaluation: Evaluation) -> Evaluation:
    """Add all metrics after temperature scaling, fitted on the validation split for each K′ separately.

    Args:
        scaling: The trained method, the data, and the temperatures.
        name: The split to measure on.
        outputs: The outputs of the members on this split.
        evaluation: The evaluation of this split.
    """
    targets = torch.from_numpy(scaling.dataset.split(name).targets)
    readings = []
    for reading in evaluation.readings:
        temperature = scaling.fitted(reading.eval_exits)
        tempered = calibrated(predictive_at(scaling.method, outputs[name], reading.eval_exits), temperature.value)
        scaled = {
            "temperature": temperature.value,
            "temperature_remark": temperature.remark,
            "calibrated": measure_predictive(tempered, targets),
        }
        readings.append(reading.model_copy(update=scaled))
    return evaluation.model_copy(update={"readings": tuple(readings)})


def draw_curves(method: Method, split: Split, outputs: Tensor) -> SplitCurves:
    """Return the curves of a split at every K′, from the outputs of all members on it."""
    targets = torch.from_numpy(split.targets)
    readings = (drawn_curves(predictive_at(method, outputs, k), targets, k) for k in method.exit_choices)
    return SplitCurves(readings=tuple(readings))


def drawn_curves(predictive: Predictive, targets: Tensor, eval_exits: int) -> CurveReading:
    """Return the risk–coverage curve and, for classes, the bins of the reliability diagram."""
    risk = risk_coverage(entropy(predictive), selection_loss(predictive, targets))
    points = torch.linspace(0, len(targets) - 1, min(RECORDED_POINTS, len(targets))).long()
    drawn = RiskCoverage(coverage=tuple(risk.coverage[points].tolist()), risk=tuple(risk.risk[points].tolist()))
    predictive, targets = one_by_one(predictive, targets)
    if not isinstance(predictive, Categorical):
        return CurveReading(eval_exits=eval_exits, risk_coverage=drawn)
    bins = reliability(predictive, targets)
    shown = Reliability(
        count=tuple(bins.count.tolist()),
        confidence=tuple(bins.confidence.tolist()),
        accuracy=tuple(bins.accuracy.tolist()),
    )
    return CurveReading(eval_exits=eval_exits, risk_coverage=drawn, reliability=shown)


def measure_costs(method: Method, spec: DataSpec, known: Iterable[Reading] = ()) -> list[Reading]:
    """Return the exits and members in use and the costs at every K′, without metrics.

    Args:
        method: The method.
        spec: The shape of samples and the task.
        known: Costs of this method that were counted before, perhaps when it used other exits.
    """
    counted = {(reading.eval_exits, reading.active): reading for reading in known}
    readings = []
    for eval_exits in method.exit_choices:
        same = counted.get((eval_exits, method.active_counts(eval_exits)))
        members = tuple(method.member_weights(eval_exits).nonzero().flatten().tolist())
        readings.append((same or describe_exits(method, eval_exits, spec)).model_copy(update={"members": members}))
    return readings


def describe_exits(method: Method, eval_exits: int, spec: DataSpec) -> Reading:
    """Return the exits that a network uses at K′ and its costs, pruned and as shipped; without metrics."""
    return describe_pruned(method.pruned(eval_exits), eval_exits, method.active_counts(eval_exits), spec)


def describe_pruned(pruned: MemberNetwork, eval_exits: int, active: tuple[int, ...], spec: DataSpec) -> Reading:
    """Return the costs of a pruned network; without metrics."""
    cost, shipped = measure_cost(pruned, spec.shape), measure_shipped_cost(pruned, spec.shape)
    return Reading(
        eval_exits=eval_exits,
        active=active,
        params=cost.params,
        flops=cost.flops,
        shipped_params=shipped.params,
        shipped_flops=shipped.flops,
        metrics={},
        parts=_part_costs(cost, shipped),
    )


def _part_costs(cost: Cost, shipped: Cost) -> tuple[PartCosts, ...]:
    """Join the parts of a pruned network with those of the exported one; each set sums to its network's costs."""
    nothing = PartCost(params=0, flops=0)
    joined = []
    for name in dict.fromkeys([*cost.by_part, *shipped.by_part]):
        own, exported = cost.by_part.get(name, nothing), shipped.by_part.get(name, nothing)
        joined.append(
            PartCosts(
                name=name,
                params=own.params,
                flops=own.flops,
                shipped_params=exported.params,
                shipped_flops=exported.flops,
            )
        )
    return tuple(joined)


def describe_network(method: Method, settings: MethodSettings, spec: DataSpec, costs: Sequence[Reading]) -> Network:
    """Return the parts and the members of a trained network at every K′.

    Args:
        method: The trained method.
        settings: Its settings.
        spec: The shape of samples and the task.
        costs: The result of `measure_costs` for it.
    """
    pruned = {reading.eval_exits: method.pruned(reading.eval_exits) for reading in costs}
    readings = []
    for reading in costs:
        network = pruned[reading.eval_exits]
        places = network.member_places(method.depth)
        members = tuple(
            Member(input=one, exit=exit_number, weight=weight)
            for (one, exit_number), weight in zip(places, network.weights.tolist(), strict=True)
        )
        readings.append(PrunedReading(eval_exits=reading.eval_exits, members=members, parts=reading.parts))
    return Network(
        exits=method.exits,
        depth=method.depth,
        passes=pruned[method.exits].num_passes,
        whole=_whole(method, settings, spec, costs),
        readings=tuple(readings),
        uncut=pruned[method.exits].uncut_reason,
    )


def _whole(method: Method, settings: MethodSettings, spec: DataSpec, costs: Sequence[Reading]) -> tuple[PartCosts, ...]:
    """Return the parts as trained: every input at every exit, also at those that no K′ keeps."""
    most = costs[-1]
    active = (settings.num_slots,) * method.depth
    if not settings.has_exits or most.active == active:
        return most.parts
    return describe_pruned(method.pruned_to(active), method.depth, active, spec).parts
