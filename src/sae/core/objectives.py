"""Metrics and costs, and the objectives and limits of a search.

To add a metric: a function with `@register_metric`, here or in another package. It is then
measured, and can be an objective, be sorted by, and be shown in reports.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from sae.core.errors import ConfigError, did_you_mean
from sae.core.registry import Reference, Registry, resolve_reference

TaskName = Literal["classification", "regression"]
NUM_BINS = 15
"""Bins of confidence, in calibration errors and reliability diagrams."""


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A kind of number.

    Attributes:
        maximise: Whether more is better.
        lower: Smallest possible value.
        upper: Largest possible value.
    """

    maximise: bool = False
    lower: float = 0.0
    upper: float = math.inf


@dataclass(frozen=True, kw_only=True)
class MetricEntry(Quantity):
    """Everything that the system needs to know about a metric.

    Attributes:
        key: Name in files and on the command line, such as `cc_ece`.
        task: The task whose predictions it measures.
        compute: Computes a number from a predictive distribution and targets, or None where the targets do not define
            it; see `measure.metrics`.
        label: Name in tables and figures, such as `CC-ECE`.
        is_listed: Whether tables on the terminal show it; JSON has all metrics.
        power: The power of the target's unit that it is measured in: 2 for the MSE, 0 for a share or a likelihood.
        is_scaled: Whether it is measured after temperature scaling, with a temperature fitted on validation data.
        margin: The smallest difference that matters; where `power` is not 0, as a share of the other value.
    """

    key: str
    task: TaskName
    compute: Reference
    label: str
    is_listed: bool = True
    power: int = 0
    is_scaled: bool = False
    margin: float = 0.01

    @property
    def name(self) -> str:
        """Its name in the registry: the two tasks may share a key."""
        return f"{self.task} {self.key}"

    def measure(self, predictive: object, targets: object) -> float | None:
        """Compute the metric of predictive distributions for these targets; None if they do not define it."""
        value = resolve_reference(self.compute)(predictive, targets)
        return None if value is None else float(value)


@dataclass(frozen=True, kw_only=True)
class CostEntry(Quantity):
    """Everything that the system needs to know about a cost.

    Attributes:
        label: Name in figures and sentences, such as `FLOPs`.
        unit: Heading of a column of numbers, such as `MFLOPs`.
        divisor: The number divided by this is in the unit.
    """

    label: str
    unit: str
    divisor: float = 1.0


METRICS = Registry("metric", "sae.metrics", MetricEntry)

Function = TypeVar("Function", bound=Callable[..., float | None])


def register_metric(
    task: TaskName,
    *,
    label: str | None = None,
    maximise: bool = False,
    lower: float = 0.0,
    upper: float = math.inf,
    is_listed: bool = True,
    power: int = 0,
) -> Callable[[Function], Function]:
    """Register a metric by decorating the function that computes it; its key is the function's name.

    The arguments are those of `MetricEntry`.
    """

    def register(function: Function) -> Function:
        key = function.__name__
        METRICS.register(
            MetricEntry(
                key=key,
                task=task,
                compute=function,
                label=label or key.replace("_", " "),
                maximise=maximise,
                lower=lower,
                upper=upper,
                is_listed=is_listed,
                power=power,
            )
        )
        return function

    return register


def metrics_of(task: str) -> dict[str, MetricEntry]:
    """Return the metrics of a task by key."""
    return {entry.key: entry for entry in METRICS if entry.task == task}


def unit_in(key: str, target: str) -> str:
    """Return the unit of a regression metric, given the name of the target; empty if it has none.

    Example:
        >>> unit_in("rmse", "price"), unit_in("mse", "price"), unit_in("r2", "price")
        ('price', 'price²', '')
    """
    power = OTHER_POWERS.get(key) or next((entry.power for entry in METRICS if entry.key == key), 0)
    return "" if not power else f"{target}²" if power == 2 else target


def metric_label(key: str) -> str:
    """Return the name of a metric or cost for people; without one, the key itself."""
    if key in ALL_COSTS:
        return ALL_COSTS[key].label
    return next((entry.label for entry in METRICS if entry.key == key), key)


def _register_ours(key: str, task: TaskName, label: str, function: str | None = None, **more: Any) -> None:
    compute = f"sae.measure.metrics:{function or key}"  # not the function itself, which needs torch
    METRICS.register(MetricEntry(key=key, task=task, compute=compute, label=label, **more))


_register_ours("nll", "classification", "NLL")
_register_ours("accuracy", "classification", "accuracy", maximise=True, upper=1.0)
_register_ours("error", "classification", "error", upper=1.0, is_listed=False)
_register_ours("f1", "classification", "F1", maximise=True, upper=1.0)
_register_ours("auroc", "classification", "AUROC", maximise=True, upper=1.0)
_register_ours("average_precision", "classification", "average precision", maximise=True, upper=1.0)
_register_ours("top5_accuracy", "classification", "top-5 accuracy", maximise=True, upper=1.0)
_register_ours("ece", "classification", "ECE", upper=1.0)
_register_ours("cc_ece", "classification", "CC-ECE", upper=1.0)
_register_ours("cc_ece_uniform", "classification", "uniform CC-ECE", upper=1.0, is_listed=False)
_register_ours("brier", "classification", "Brier score", upper=2.0)
_register_ours("nll_scaled", "classification", "NLL, scaled", "nll", is_scaled=True)
_register_ours("ece_scaled", "classification", "ECE, scaled", "ece", upper=1.0, is_listed=False, is_scaled=True)
_register_ours(
    "cc_ece_scaled", "classification", "CC-ECE, scaled", "cc_ece", upper=1.0, is_listed=False, is_scaled=True
)
_register_ours("nll", "regression", "NLL", "regression_nll", lower=-math.inf)
_register_ours("mse", "regression", "MSE", power=2, margin=0.04)
_register_ours("rmse", "regression", "RMSE", power=1, margin=0.02)
_register_ours("mae", "regression", "MAE", power=1, margin=0.02)
_register_ours("r2", "regression", "R²", maximise=True, lower=-math.inf, upper=1.0)
_register_ours("pinball", "regression", "pinball loss", power=1, margin=0.02)
_register_ours("nll_scaled", "regression", "NLL, scaled", "regression_nll", lower=-math.inf, is_scaled=True)

OTHER_POWERS = {"width_90": 1}
"""Powers of the target's unit for numbers that are not registered metrics."""

MILLION = 1e6
COSTS: dict[str, CostEntry] = {
    "flops": CostEntry(label="FLOPs", unit="MFLOPs", divisor=MILLION),
    "params": CostEntry(label="parameters", unit="M params", divisor=MILLION),
    "shipped_flops": CostEntry(label="FLOPs as shipped", unit="MFLOPs as shipped", divisor=MILLION),
    "shipped_params": CostEntry(label="parameters as shipped", unit="M params as shipped", divisor=MILLION),
}
"""Counted on the network: pruned as in the paper, and as exported."""
MEASURED_COSTS: dict[str, CostEntry] = {"latency": CostEntry(label="ms for a batch of 64", unit="ms for a batch of 64")}
"""Measured on the exported network, on request: milliseconds for a batch of 64."""
ALL_COSTS = {**COSTS, **MEASURED_COSTS}

DEFAULT_OBJECTIVES = {"classification": ("nll", "cc_ece", "flops"), "regression": ("nll", "mse", "flops")}
ERROR_CORRELATION = "error_correlation"
"""The key of the mean correlation of the errors of two members, which networks with several members have."""
SHIFTED = "@shift"
"""The suffix of a metric that is measured on corrupted validation images."""


@dataclass(frozen=True)
class Objective:
    """A metric or a cost that is optimised, as a loss.

    Attributes:
        name: As users write it, such as `nll`, `flops` or `nll@shift`.
        quantity: Its direction and bounds.
    """

    name: str
    quantity: Quantity

    @property
    def key(self) -> str:
        """The key of the metric or cost, without the suffix."""
        return self.name.removesuffix(SHIFTED)

    @property
    def label(self) -> str:
        """Its name for people.

        Example:
            >>> objective("cc_ece@shift", "classification").label
            'CC-ECE under shift'
        """
        return metric_label(self.key) + (" under shift" if self.is_shifted else "")

    @property
    def is_shifted(self) -> bool:
        """Whether it is measured on corrupted images."""
        return self.name.endswith(SHIFTED)

    def under_shift(self) -> "Objective":
        """Return the same metric on corrupted images; a cost is the same there.

        Example:
            >>> objective("nll", "classification").under_shift().name
            'nll@shift'
        """
        return self if self.is_cost or self.is_shifted else Objective(self.name + SHIFTED, self.quantity)

    @property
    def is_cost(self) -> bool:
        """Whether it is paid for each prediction; costs are compared by their ratio."""
        return self.key in ALL_COSTS

    @property
    def is_measured(self) -> bool:
        """Whether it is a cost that is measured by a clock, so that nothing bounds it before training."""
        return self.key in MEASURED_COSTS

    def loss(self, value: float) -> float:
        """Return the value as a loss: less is better.

        Example:
            >>> objective("f1", "classification").loss(0.8)
            -0.8
        """
        return -value if self.quantity.maximise else value

    def scaled_loss(self, value: float) -> float:
        """Return the loss on the scale on which differences are compared: costs by their logarithm."""
        return self.scaled_losses([value])[0]

    def scaled_losses(self, values: Iterable[float]) -> list[float]:
        """Return the losses of many values on the scale on which differences are compared.

        Example:
            >>> objective("flops", "classification").scaled_losses([1.0, 0.0])
            [0.0, 0.0]
        """
        losses = [-value for value in values] if self.quantity.maximise else list(values)
        return [math.log(loss) if loss > 0 else loss for loss in losses] if self.is_cost else losses

    def show(self, value: float) -> str:
        """Return the value as people read it.

        Example:
            >>> objective("flops", "classification").show(210944), objective("nll", "classification").show(0.10123)
            ('210,944', '0.1012')
        """
        return f"{value:,.0f}" if self.is_cost and not self.is_measured else f"{value:.4g}"


COST_OBJECTIVES = tuple(Objective(name, quantity) for name, quantity in COSTS.items())


@dataclass(frozen=True)
class Limit:
    """An upper or a lower limit on an objective of a configuration."""

    objective: Objective
    bound: float
    is_maximum: bool

    def violation(self, value: float) -> float:
        """Return how far a value breaks the limit, as a share of the bound; 0 or less if the limit holds.

        Example:
            >>> Limit(objective("flops", "classification"), 2e6, is_maximum=True).violation(3e6)
            0.5
        """
        excess = value - self.bound if self.is_maximum else self.bound - value
        return excess / (abs(self.bound) or 1.0)

    def __str__(self) -> str:
        return f"{self.objective.name} {'≤' if self.is_maximum else '≥'} {self.objective.show(self.bound)}"


def objective(name: str, task: str) -> Objective:
    """Return the objective of this name for a task, `classification` or `regression`."""
    metrics = metrics_of(task)
    key = name.removesuffix(SHIFTED)
    known: dict[str, Quantity] = {**metrics, **ALL_COSTS}
    if key not in known or (name.endswith(SHIFTED) and key not in metrics):
        names = [*known, *(f"{metric}{SHIFTED}" for metric in metrics)]
        near = did_you_mean(name, [key] if key in known else names)
        raise ConfigError(f"an objective of {task} must be one of {', '.join(names)}; got {name!r}{near}")
    return Objective(name, known[key])


def objectives(names: Iterable[str], task: str) -> tuple[Objective, ...]:
    """Return the objectives of these names, which must all differ."""
    chosen = tuple(objective(name, task) for name in names)
    if not chosen or len({item.name for item in chosen}) < len(chosen):
        given = ", ".join(item.name for item in chosen) or "none"
        raise ConfigError(f"objectives must be one or more different names, got {given}")
    return chosen


def all_under_shift(chosen: Iterable[Objective]) -> tuple[Objective, ...]:
    """Return objectives on corrupted images, each once, in their order."""
    return tuple(dict.fromkeys(item.under_shift() for item in chosen))


def limits(maximum: Mapping[str, float], minimum: Mapping[str, float], task: str) -> tuple[Limit, ...]:
    """Return all limits that a configuration must meet; a limit that nothing can meet is refused."""
    for name in set(maximum) & set(minimum):
        if maximum[name] < minimum[name]:
            raise ConfigError(
                f"the limits on {name} must allow some value, got at most {maximum[name]:g} and at least "
                f"{minimum[name]:g}"
            )
    return tuple(
        _limit(objective(name, task), bound, is_maximum)
        for bounds, is_maximum in ((maximum, True), (minimum, False))
        for name, bound in bounds.items()
    )


def _limit(limited: Objective, bound: float, is_maximum: bool) -> Limit:
    quantity = limited.quantity
    if is_maximum and bound < quantity.lower:
        least = f"at least {quantity.lower:g} (its smallest value)"
        raise ConfigError(f"an upper limit on {limited.name} must be {least}, got {bound:g}")
    if not is_maximum and bound > quantity.upper:
        most = f"at most {quantity.upper:g} (its largest value)"
        raise ConfigError(f"a lower limit on {limited.name} must be {most}, got {bound:g}")
    return Limit(limited, bound, is_maximum)
