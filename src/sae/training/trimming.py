"""Trimmed runs: members of a trained network chosen on validation samples, within limits on the cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from sae.config.methods import TrimWeights
from sae.config.run import RunConfig, parse_run
from sae.core.errors import ConfigError, did_you_mean
from sae.core.objectives import COSTS
from sae.core.task import Regression
from sae.data.binding import AS_BEFORE, Whereabouts
from sae.data.dataset import Dataset
from sae.ensemble.selection import (
    NUM_FOLDS,
    Members,
    Mixtures,
    Selection,
    fit_weights,
    gain_held_out,
    select_by_depth,
    select_members,
)
from sae.methods import Method, build_method
from sae.records.evaluation import SPLITS, Reading, RunEvaluation, Split
from sae.records.network import Member, Trimming, TrimPoint, TrimStep
from sae.records.run import RunRecord
from sae.training.evaluator import Scaling, describe_exits, measure_split, split_outputs
from sae.training.run import preparation, record_derived, restore
from sae.training.trainer import torch_threads

Limits = Mapping[str, float]


def trim(
    run: Path,
    out: Path,
    maximum: Limits,
    *,
    weights: TrimWeights = "greedy",
    force: bool = False,
    where: Whereabouts = AS_BEFORE,
) -> Trimming:
    """Choose members of a finished run on its validation samples, and record the network with these as a run.

    Nothing is trained. A member is any pair (input, exit); inputs without a member are dropped.

    With `weights="em"` the weights of the chosen members are fitted to the validation samples. Without a limit these
    are the members that the run has learnt to use. Weights that do not lower the NLL in a cross-validation are not
    used.

    Args:
        run: The folder of the finished run.
        out: The folder of the trimmed run; the same call again returns its result.
        maximum: Upper limits on costs, by name.
        weights: How the members are weighted.
        force: Whether to delete an earlier run in the folder.
        where: Where the data are today.
    """
    source = RunRecord.open(run)
    config = trimmed_config(source, maximum, weights)
    if out.resolve() == run.resolve():
        raise ConfigError(f"the trimmed run needs a folder of its own, got {out}, which holds the run to trim")
    RunRecord(out).check_room(config, force=force)
    earlier = RunRecord(out).read_trimming() if RunRecord(out).has(RunRecord.STATUS) and not force else None
    if earlier is not None:
        return earlier
    with torch_threads(config.train.threads):
        trained, dataset = restore(source, where=where)
        if dataset.is_other:
            raise ConfigError("members must be chosen on the run's own validation samples: drop --allow-other-data")
        method = build_method(config.method, config.backbone, dataset.spec, config.seed)
        state = {**trained.state_dict(), "chosen": torch.zeros(config.method.num_inputs, method.depth)}
        method.load_state_dict(state)
        device = next(trained.parameters()).device
        choice = MemberChoice(method.to(device).eval(), dataset, config.train.device)
        if weights == "em":
            fitted = choice.fit(choice.within(maximum) if maximum else None, trained.member_weights().cpu())
        else:
            fitted = FittedChoice(choice.within(maximum))
        selection = fitted.selection
        found = describe(choice, selection, source, maximum)
        found = found.model_copy(update={"weights": fitted.weights, "remark": fitted.remark})
        record = RunRecord.create(out, config, force=force)
        record.write_json(record.TRIM, found.to_json())
        record.write_rows(record.TRIM_ROWS, found.rows())
        method.choose(choice.weights(selection))
        record_derived(record, source, method, dataset)
    return found


def trimmed_config(source: RunRecord, maximum: Limits, weights: TrimWeights = "greedy") -> RunConfig:
    """Return the config of the trimmed run; refuse limits and runs that leave nothing to choose."""
    for name, bound in maximum.items():
        if name not in COSTS:
            raise ConfigError(
                f"a limit of `sae trim` must be on one of {', '.join(COSTS)}, got {name}{did_you_mean(name, COSTS)}"
            )
        if bound <= 0:
            raise ConfigError(f"a limit on {name} must be above 0, got {bound:g}")
    config = source.read_config()
    if not config.method.has_exits:
        raise ConfigError(
            f"members can be chosen from the exits of a network, but {source.path} is a run of {config.method.name}, "
            f"which has only one exit: give a run of method sae"
        )
    if config.method.num_slots > config.method.num_inputs:
        raise ConfigError(
            f"members of {source.path} cannot be chosen: it has several streams, which `sae trim` does not support"
        )
    values = config.model_dump(mode="json")
    if "trim" in values["method"]:
        raise ConfigError(f"{source.path} is trimmed already: trim the run that it came from")
    chosen = {"trim": dict(maximum), "trim_weights": weights}
    return parse_run({**values, "method": {**values["method"], **chosen}})


@dataclass(frozen=True)
class FittedChoice:
    """Chosen members, how they are weighted, and a remark on fitted weights, if they were asked for."""

    selection: Selection
    weights: Literal["greedy", "em", "theta"] = "greedy"
    remark: str | None = None


class MemberChoice:
    """The choice among the members of one trained network.

    Args:
        method: A method whose members can be chosen, with the weights of a trained one.
        dataset: The data.
        device: The device to compute on.
    """

    def __init__(self, method: Method, dataset: Dataset, device: str) -> None:
        self.method, self.dataset = method, dataset
        prepare = preparation(dataset, device)
        self.outputs = split_outputs(method, dataset, prepare, SPLITS)
        targets = torch.from_numpy(dataset.val.targets)
        self.mixtures = Mixtures.of(method.task, self.outputs["val"], targets)
        self._readings: dict[tuple[tuple[int, ...], int], Reading] = {}

    @property
    def num_members(self) -> int:
        """The number of members to choose from."""
        return len(self.mixtures.statistics)

    def place(self, member: int) -> tuple[int, int]:
        """Return the input and the exit of a member, counted from 0."""
        return divmod(member, self.method.depth)

    def num_inputs(self, members: Members) -> int:
        """Return how many inputs some members belong to."""
        return len({self.place(member)[0] for member in members})

    def weights(self, selection: Selection) -> Tensor:
        """Return the weight of every member, (member,)."""
        return selection.weights(self.num_members)

    def costs(self, members: Members) -> dict[str, float]:
        """Return the exact costs of the network of some members, pruned and as shipped."""
        return self.cost_reading(members).costs

    def cost_reading(self, members: Members) -> Reading:
        """Return the exits that some members use, and the costs of their network."""
        used = torch.zeros(self.num_members)
        used[sorted(members)] = 1 / len(members)
        self.method.choose(used)
        shape = self.method.active_counts(), self.num_inputs(members)
        if shape not in self._readings:  # which inputs use an exit has no effect on the cost
            self._readings[shape] = describe_exits(self.method, self.method.exits, self.dataset.spec)
        return self._readings[shape]

    def find(self, maximum: Limits) -> Selection | None:
        """Choose members within limits; None if not even a single member meets them."""

        def is_allowed(members: Members) -> bool:
            costs = self.costs(members)
            return all(costs[name] <= bound for name, bound in maximum.items())

        return select_by_depth(self.mixtures, self.method.depth, is_allowed)

    def within(self, maximum: Limits) -> Selection:
        """Choose members within limits; refuse limits that no member meets."""
        selection = self.find(maximum)
        if selection is None:
            alone = [self.costs(frozenset([member])) for member in range(self.num_members)]
            least = ", ".join(f"{name} {min(costs[name] for costs in alone):,.0f}" for name in maximum)
            given = ", ".join(f"{name}={bound:g}" for name, bound in maximum.items())
            raise ConfigError(f"the limits must allow at least one member, got {given}: the least possible is {least}")
        return selection

    def fit(self, selection: Selection | None, learnt: Tensor) -> FittedChoice:
        """Fit the weights of members by EM, and use them if they do better on held-out samples.

        Args:
            selection: The chosen members; None for those that the network has learnt to use.
            learnt: θ*/N, the learnt weight of each member, (member,).
        """
        if isinstance(self.method.task, Regression):
            raise ConfigError(
                "weights are fitted by EM for classes only, got a regression, whose members are averaged into one "
                "normal distribution: leave out --weights"
            )
        before = selection or Selection((), {int(m): learnt[m].item() for m in learnt.nonzero().flatten()})
        name: Literal["theta", "greedy"] = "theta" if selection is None else "greedy"
        called = "learnt" if selection is None else "greedy"

        def others(kept: Mixtures) -> Tensor:
            if selection is None:
                return learnt
            again = select_members(kept, lambda _: True, selection.members)
            assert again is not None, "members that were chosen before can be chosen again"
            return again.weights(self.num_members)

        gain = gain_held_out(self.mixtures, before.members, others)
        how = f"in a {NUM_FOLDS}-fold cross-validation on the {len(self.dataset.val)} validation samples"
        if not gain > 0:
            return FittedChoice(
                before, name, f"The {called} weights stay: fitted ones raise the NLL by {-gain:.4f} {how}."
            )
        fitted = Selection(before.steps, fit_weights(self.mixtures, before.members))
        return FittedChoice(fitted, "em", f"Fitted weights lower the NLL of {called} ones by {gain:.4f} {how}.")

    def measure(self, selection: Selection) -> dict[Split, Reading]:
        """Return the costs of the chosen members and their metrics on each split."""
        reading = self.cost_reading(selection.members)
        self.method.choose(self.weights(selection))
        scaling = Scaling(self.method, self.dataset, self.outputs["val"])
        metrics = {name: measure_split(scaling, name, self.outputs, self.method.exits) for name in SPLITS}
        members = tuple(sorted(selection.members))
        return {
            name: reading.model_copy(update={"metrics": found, "members": members}) for name, found in metrics.items()
        }

    def point(self, selection: Selection, limit: float | None, *, is_chosen: bool) -> TrimPoint:
        """Return a selection as a point of the curve."""
        measured = self.measure(selection)
        return TrimPoint(
            kind="chosen" if is_chosen else "greedy",
            limit=limit,
            members=len(selection.members),
            inputs=self.num_inputs(selection.members),
            val=measured["val"],
            test=measured["test"],
        )


def describe(choice: MemberChoice, selection: Selection, source: RunRecord, maximum: Limits) -> Trimming:
    """Describe a selection, and the curve on which it is a point."""
    cost = next(iter(maximum), "flops")
    weights = choice.weights(selection).tolist()
    steps = []
    for number, step in enumerate(selection.steps, start=1):
        i, j = choice.place(step.member)
        members = frozenset(earlier.member for earlier in selection.steps[:number])
        steps.append(TrimStep(input=i + 1, exit=j + 1, nll=step.nll, costs=choice.costs(members)))
    chosen = choice.point(selection, maximum.get(cost), is_chosen=True)
    learnt = learnt_points(source.read_evaluation(), source.read_config().method.num_inputs)
    places = [(*choice.place(member), weight) for member, weight in enumerate(weights) if weight > 0]
    return Trimming(
        run=source.path.resolve().name,
        cost=cost,
        limits=dict(maximum),
        val_samples=len(choice.dataset.val),
        members=tuple(Member(input=i + 1, exit=j + 1, weight=weight) for i, j, weight in places),
        steps=tuple(steps),
        points=(*learnt, *greedy_points(choice, cost, maximum, learnt), chosen),
    )


def learnt_points(evaluation: RunEvaluation, num_inputs: int) -> list[TrimPoint]:
    """Return the learnt exits at every K′, as the run recorded them."""
    return [
        TrimPoint(
            kind="theta",
            eval_exits=reading.eval_exits,
            members=sum(reading.active),
            inputs=num_inputs,
            val=reading,
            test=evaluation.test.at(reading.eval_exits),
        )
        for reading in evaluation.val.readings
    ]


def greedy_points(choice: MemberChoice, cost: str, maximum: Limits, learnt: list[TrimPoint]) -> list[TrimPoint]:
    """Return the choices within other limits on a cost: the costs of every exit alone and of the learnt exits."""
    alone = [choice.costs(frozenset([exit_index]))[cost] for exit_index in range(choice.method.depth)]
    limits = sorted({*alone, *(point.val.costs[cost] for point in learnt)})
    others = {name: bound for name, bound in maximum.items() if name != cost}
    points: list[TrimPoint] = []
    last: Selection | None = None
    for limit in limits:
        selection = choice.find({**others, cost: limit})
        if selection is not None and selection != last:  # a higher limit may change nothing
            points.append(choice.point(selection, limit, is_chosen=False))
        last = selection
    return points
