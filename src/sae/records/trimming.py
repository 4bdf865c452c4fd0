"""The result of `sae trim`: the chosen members, the steps of the choice, and the curve that they are a point of."""

from collections.abc import Mapping
from typing import Literal

from sae.core.objectives import DEFAULT_OBJECTIVES
from sae.records.evaluation import Json, Part, Reading
from sae.records.network import Member


class TrimStep(Part):
    """One step of the choice: the member that was added, and all members so far.

    Attributes:
        input: The input of the member, counted from 1.
        exit: Its exit, counted from 1.
        nll: Validation NLL of all members so far, as often as they were added.
        costs: Costs of the network with all members so far.
    """

    input: int
    exit: int
    nll: float
    costs: Mapping[str, float]


class TrimPoint(Part):
    """A network on the curve.

    Attributes:
        kind: `theta`, the learnt top K′ exits of each input; `greedy`, members chosen on validation samples;
            `chosen`, those of the trimmed run.
        limit: What the cost that is limited may be at most; None for the learnt exits, and without a limit.
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
        cost: The cost that the curve is over: the first that is limited, or FLOPs.
        limits: What costs may be at most.
        val_samples: The number of validation samples that decided.
        members: The chosen members.
        steps: How they were chosen, step by step.
        points: The curve: learnt exits, chosen members at other limits, and the choice.
        weights: How the members are weighed: `greedy`, by how often they were chosen; `em`, by weights fitted on
            validation samples; `theta`, by the learnt weights, because fitted ones were no better.
        remark: How fitted weights did in a cross-validation, if they were asked for.
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
