"""What can be optimised and limited: metrics and costs, each with its direction and bounds."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sae.core.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Quantity:
    """What kind of number something is.

    Attributes:
        maximise: Whether more is better.
        lower: Smallest possible value.
        upper: Largest possible value.
    """

    maximise: bool = False
    lower: float = 0.0
    upper: float = math.inf


CLASSIFICATION: dict[str, Quantity] = {
    "nll": Quantity(),
    "accuracy": Quantity(maximise=True, upper=1.0),
    "error": Quantity(upper=1.0),
    "f1": Quantity(maximise=True, upper=1.0),
    "ece": Quantity(upper=1.0),
    "cc_ece": Quantity(upper=1.0),
    "cc_ece_uniform": Quantity(upper=1.0),
    "brier": Quantity(upper=2.0),
}
REGRESSION: dict[str, Quantity] = {"nll": Quantity(lower=-math.inf), "mse": Quantity()}
COSTS: dict[str, Quantity] = {
    "flops": Quantity(),
    "params": Quantity(),
    "shipped_flops": Quantity(),
    "shipped_params": Quantity(),
}
"""Counted on the network: pruned as the paper does, and as it is exported."""
MEASURED_COSTS: dict[str, Quantity] = {"latency": Quantity()}
"""Measured on the exported network, for those who ask: milliseconds for a batch of 64."""
METRICS = {"classification": CLASSIFICATION, "regression": REGRESSION}

DEFAULT_OBJECTIVES = {"classification": ("nll", "cc_ece", "flops"), "regression": ("nll", "mse", "flops")}
SHIFTED = "@shift"
"""Behind a metric's name: measured on corrupted validation images."""


@dataclass(frozen=True)
class Objective:
    """A metric or a cost, as a loss.

    Attributes:
        name: As users write it, `nll`, `flops` or `nll@shift`.
        quantity: Its direction and bounds.
    """

    name: str
    quantity: Quantity

    @property
    def key(self) -> str:
        """The metric or cost, wherever it is measured."""
        return self.name.removesuffix(SHIFTED)

    @property
    def is_shifted(self) -> bool:
        """Whether it is measured on corrupted images."""
        return self.name.endswith(SHIFTED)

    @property
    def is_cost(self) -> bool:
        """Whether it is paid for each prediction; costs are weighed by their ratio."""
        return self.key in COSTS or self.is_measured

    @property
    def is_measured(self) -> bool:
        """Whether it is a cost that only a clock knows, so that nothing bounds it before training."""
        return self.key in MEASURED_COSTS

    def loss(self, value: float) -> float:
        """Less is better.

        Example:
            >>> objective("f1", "classification").loss(0.8)
            -0.8
        """
        return -value if self.quantity.maximise else value

    def scaled_loss(self, value: float) -> float:
        """The loss on the scale on which differences are weighed: costs by their ratio, so by their logarithm."""
        return math.log(value) if self.is_cost and value > 0 else self.loss(value)

    def show(self, value: float) -> str:
        """The value as people read it.

        Example:
            >>> objective("flops", "classification").show(210944), objective("nll", "classification").show(0.10123)
            ('210,944', '0.1012')
        """
        return f"{value:,.0f}" if self.is_cost and not self.is_measured else f"{value:.4g}"


COST_OBJECTIVES = tuple(Objective(name, quantity) for name, quantity in COSTS.items())


@dataclass(frozen=True)
class Limit:
    """What a configuration may cost at most, or must reach at least."""

    objective: Objective
    bound: float
    is_maximum: bool

    def violation(self, value: float) -> float:
        """By which share of the bound it is broken; 0 or less where it holds.

        Example:
            >>> Limit(objective("flops", "classification"), 2e6, is_maximum=True).violation(3e6)
            0.5
        """
        excess = value - self.bound if self.is_maximum else self.bound - value
        return excess / (abs(self.bound) or 1.0)

    def __str__(self) -> str:
        return f"{self.objective.name} {'≤' if self.is_maximum else '≥'} {self.objective.show(self.bound)}"


def objective(name: str, task: str) -> Objective:
    """The objective of this name for a kind of task, `classification` or `regression`."""
    metrics = METRICS[task]
    key = name.removesuffix(SHIFTED)
    known = {**metrics, **COSTS, **MEASURED_COSTS}
    if key not in known or (name.endswith(SHIFTED) and key not in metrics):
        names = [*known, *(f"{metric}{SHIFTED}" for metric in metrics)]
        near = did_you_mean(name, [key] if key in known else names)
        raise ConfigError(f"an objective of {task} must be one of {', '.join(names)}; got {name!r}{near}")
    return Objective(name, known[key])


def objectives(names: Iterable[str], task: str) -> tuple[Objective, ...]:
    """Objectives by their names; each must be another."""
    chosen = tuple(objective(name, task) for name in names)
    if not chosen or len({item.name for item in chosen}) < len(chosen):
        raise ConfigError(f"objectives must be one or more different ones, got {', '.join(o.name for o in chosen)}")
    return chosen


def limits(maximum: Mapping[str, float], minimum: Mapping[str, float], task: str) -> tuple[Limit, ...]:
    """All limits that a configuration has to keep; such as none could keep are refused."""
    for name in set(maximum) & set(minimum):
        if maximum[name] < minimum[name]:
            raise ConfigError(
                f"{name} must be allowed some value, got at most {maximum[name]:g} and at least {minimum[name]:g}"
            )
    return tuple(
        _limit(objective(name, task), bound, is_maximum)
        for bounds, is_maximum in ((maximum, True), (minimum, False))
        for name, bound in bounds.items()
    )


def _limit(limited: Objective, bound: float, is_maximum: bool) -> Limit:
    quantity = limited.quantity
    if bound < quantity.lower if is_maximum else bound > quantity.upper:
        side = f"at least {quantity.lower:g}" if is_maximum else f"at most {quantity.upper:g}"
        word = "at most" if is_maximum else "at least"
        raise ConfigError(f"a limit must be within reach, however {limited.name} is {side}, got {word} {bound:g}")
    return Limit(limited, bound, is_maximum)
