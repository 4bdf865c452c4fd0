"""The trained network as types: its parts with their costs, its members at every K′, and the result of trimming it."""

from collections.abc import Iterable, Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from sae.core.objectives import DEFAULT_OBJECTIVES
from sae.records.evaluation import AtExits, Json, Part, PartCosts, Reading, check_recorded, find_exits


class Member(Part):
    """A prediction that takes part in the weighted mean.

    Attributes:
        input: The input that it belongs to, counted from 1; None if the method has no inputs to tell apart.
        exit: Its exit, counted from 1.
        weight: Its weight; those of all members sum to 1.
    """

    input: int | None
    exit: int
    weight: float


class PrunedReading(AtExits):
    """The members and parts of a network pruned to K′ exits per input.

    Attributes:
        members: The predictions that are averaged.
        parts: Their costs sum to the costs of the network.
    """

    members: tuple[Member, ...]
    parts: tuple[PartCosts, ...]

    @property
    def total(self) -> PartCosts:
        """The costs of the network."""
        return total_of(self.parts)


class Network(Part):
    """The composition of a trained network.

    Attributes:
        exits: K, the exits per input that it was trained for.
        depth: D, the stages of its backbone.
        passes: How often its parts run for one sample; FLOPs are those of all passes.
        whole: The parts as trained, with every exit for every input.
        readings: One for each K′.
        uncut: Why the network cannot be cut between its exits, so that it is one part; None if it can be.
    """

    exits: int
    depth: int
    passes: int
    whole: tuple[PartCosts, ...]
    readings: tuple[PrunedReading, ...] = Field(alias="by_exits")
    uncut: str | None = Field(None, exclude_if=lambda reason: reason is None)

    @model_validator(mode="after")
    def _check_exits(self) -> Self:
        check_recorded(self.readings, [self.exits])
        return self

    def at(self, eval_exits: int) -> PrunedReading:
        """Return the network at K′ exits."""
        return find_exits(self.readings, eval_exits)

    def to_json(self) -> Json:
        """Return the content of the file."""
        return self.model_dump(mode="json", by_alias=True)


def total_of(parts: Iterable[PartCosts]) -> PartCosts:
    """Return the sum of the costs of parts."""
    listed = list(parts)
    return PartCosts(
        name="all",
        params=sum(part.params for part in listed),
        flops=sum(part.flops for part in listed),
        shipped_params=sum(part.shipped_params for part in listed),
        shipped_flops=sum(part.shipped_flops for part in listed),
    )


class TrimStep(Part):
    """One step of the choice: the member that was added, and all members so far.

    Attributes:
        input: The input of the member, counted from 1.
        exit: Its exit, counted from 1.
        nll: Validation NLL of all members so far; a member that was added twice counts twice.
        costs: Costs of the network with all members so far.
    """

    input: int
    exit: int
    nll: float
    costs: Mapping[str, float]


class TrimPoint(Part):
    """A network on the curve of quality over cost.

    Attributes:
        kind: `theta`, the learnt top K′ exits of each input; `greedy`, members chosen on validation samples;
            `chosen`, those of the trimmed run.
        limit: Upper limit on the cost; None for the learnt exits, and without a limit.
        eval_exits: K′ of the learnt exits.
        members: The number of members.
        inputs: The number of inputs that they belong to.
        val: Costs, and metrics on the validation split.
        test: Costs, and metrics on the test split.
    """

    kind: Literal["theta", "greedy", "chosen"]
    limit: float | None = None
    eval_exits: int | None = None
    members: int
    inputs: int
    val: Reading
    test: Reading

    def to_row(self, metrics: tuple[str, ...]) -> dict[str, str | float]:
        """Return a row of the CSV file, with these metrics."""
        measured = {f"{split}_{key}": getattr(self, split).metrics[key] for split in ("val", "test") for key in metrics}
        return {
            "kind": self.kind,
            "limit": "" if self.limit is None else self.limit,
            "eval_exits": "" if self.eval_exits is None else self.eval_exits,
            "members": self.members,
            "inputs": self.inputs,
            **self.val.costs,
            **measured,
        }


class Trimming(Part):
    """The result of `sae trim`.

    Attributes:
        run: Name of the run that was trimmed.
        cost: The cost of the curve: the first that is limited, or FLOPs.
        limits: Upper limits on costs.
        val_samples: The number of validation samples that the choice is based on.
        members: The chosen members.
        steps: How they were chosen, step by step.
        points: The curve: learnt exits, chosen members at other limits, and the choice.
        weights: How the members are weighted: `greedy`, by how often they were chosen; `em`, by weights fitted on
            validation samples; `theta`, by the learnt weights, because fitted ones were no better.
        remark: Result of fitted weights in cross-validation, if they were asked for.
    """

    run: str
    cost: str
    limits: Mapping[str, float]
    val_samples: int
    members: tuple[Member, ...]
    steps: tuple[TrimStep, ...]
    points: tuple[TrimPoint, ...]
    weights: Literal["greedy", "em", "theta"] = "greedy"
    remark: str | None = None

    def of_kind(self, *kinds: str) -> list[TrimPoint]:
        """Return the points of some kinds, cheapest first."""
        found = [point for point in self.points if point.kind in kinds]
        return sorted(found, key=lambda point: point.val.costs[self.cost])

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of the curve: those that a search of the same task minimises by default."""
        measured = self.points[0].val.metrics
        task = "classification" if "accuracy" in measured else "regression"
        return tuple(name for name in DEFAULT_OBJECTIVES[task] if name in measured)

    def rows(self) -> list[dict[str, str | float]]:
        """Return the points as rows of a CSV file, cheapest first."""
        return [point.to_row(self.metrics) for point in self.of_kind("theta", "greedy", "chosen")]

    @property
    def chosen(self) -> TrimPoint:
        """The point of the trimmed run."""
        return self.of_kind("chosen")[0]

    def to_json(self) -> Json:
        """Return the content of `trim.json`."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
