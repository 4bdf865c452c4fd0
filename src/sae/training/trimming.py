"""Trimmed runs: members of a trained network chosen on validation samples, within limits on the cost."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from sae.config.run import RunConfig, parse_run
from sae.core.errors import ConfigError, did_you_mean
from sae.core.objectives import COSTS
from sae.data.batches import evaluation_batches
from sae.data.binding import AS_BEFORE, Whereabouts
from sae.data.dataset import Dataset
from sae.ensemble.selection import Members, Mixtures, Selection, select_by_depth
from sae.methods import Method, build_method
from sae.records.evaluation import SPLITS, Reading, RunEvaluation, Split
from sae.records.network import Member
from sae.records.run import RunRecord
from sae.records.trimming import Trimming, TrimPoint, TrimStep
from sae.training.evaluator import describe_exits, measure_members, member_outputs
from sae.training.run import preparation, record_derived, restore, torch_threads

Limits = Mapping[str, float]


def trim(run: Path, out: Path, maximum: Limits, *, force: bool = False, where: Whereabouts = AS_BEFORE) -> Trimming:
    """Choose members of a finished run on its validation samples, and record the network of these as a run.

    Nothing is trained. A member is any pair (input, exit); inputs without a member are dropped.

    Args:
        run: The folder of the finished run.
        out: The folder of the trimmed run; the same call again returns what is there.
        maximum: What costs may be at most, by name.
        force: Whether to delete an earlier run in the folder.
        where: Where the data are today.
    """
    source = RunRecord.open(run)
    config = trimmed_config(source, maximum)
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
        selection = choice.within(maximum)
        found = describe(choice, selection, source, maximum)
        record = RunRecord.create(out, config, force=force)
        record.write_json(record.TRIM, found.to_json())
        record.write_rows(record.TRIM_ROWS, found.rows())
        method.choose(choice.weights(selection))
        record_derived(record, source, method, dataset)
    return found


def trimmed_config(source: RunRecord, maximum: Limits) -> RunConfig:
    """Return the config of a run with these limits; refuse limits and runs for which there is no choice."""
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
    values = config.model_dump(mode="json")
    if "trim" in values["method"]:
        raise ConfigError(f"{source.path} is trimmed already: trim the run that it came from")
    return parse_run({**values, "method": {**values["method"], "trim": dict(maximum)}})


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
        self.outputs = {
            name: member_outputs(method, evaluation_batches(dataset.split(name).inputs, prepare)) for name in SPLITS
        }
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
        """Return the exits that some members use, and what their network costs."""
        used = torch.zeros(self.num_members)
        used[sorted(members)] = 1 / len(members)
        self.method.choose(used)
        shape = self.method.active_counts(), self.num_inputs(members)
        if shape not in self._readings:  # which inputs use an exit has no effect on the cost
            self._readings[shape] = describe_exits(self.method, self.method.exits, self.dataset.spec)
        return self._readings[shape]

    def find(self, maximum: Limits) -> Selection | None:
        """Choose members within limits; None if not even one member keeps them."""

        def is_allowed(members: Members) -> bool:
            costs = self.costs(members)
            return all(costs[name] <= bound for name, bound in maximum.items())

        return select_by_depth(self.mixtures, self.method.depth, is_allowed)

    def within(self, maximum: Limits) -> Selection:
        """Choose members within limits; refuse limits that no member keeps."""
        selection = self.find(maximum)
        if selection is None:
            alone = [self.costs(frozenset([member])) for member in range(self.num_members)]
            least = ", ".join(f"{name} {min(costs[name] for costs in alone):,.0f}" for name in maximum)
            given = ", ".join(f"{name}={bound:g}" for name, bound in maximum.items())
            raise ConfigError(f"the limits must allow one member at least, got {given}: the least possible is {least}")
        return selection

    def measure(self, selection: Selection, split: Split) -> Reading:
        """Return what the chosen members cost and how well they predict a split."""
        reading = self.cost_reading(selection.members)
        self.method.choose(self.weights(selection))
        metrics = measure_members(self.method, self.outputs[split], self.dataset.split(split), self.method.exits)
        return reading.model_copy(update={"metrics": metrics})

    def point(self, selection: Selection, limit: float | None, *, is_chosen: bool) -> TrimPoint:
        """Return a selection as a point of the curve."""
        return TrimPoint(
            kind="chosen" if is_chosen else "greedy",
            limit=limit,
            members=len(selection.members),
            inputs=self.num_inputs(selection.members),
            val=self.measure(selection, "val"),
            test=self.measure(selection, "test"),
        )


def describe(choice: MemberChoice, selection: Selection, source: RunRecord, maximum: Limits) -> Trimming:
    """Describe a selection, and the curve that it is a point of."""
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
    """Return the choices within other limits on a cost: those of every exit alone and of the learnt exits."""
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
