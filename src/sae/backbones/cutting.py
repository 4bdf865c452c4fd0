"""Modules cut into stages.

The record of a module's operations is cut behind its first layer and behind each exit, and every
piece becomes a stage. The stages are compared with the module before they are used.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.fx.node import map_aggregate

from sae.backbones.base import features_of
from sae.backbones.recording import CannotCutError, Record, Step, StepKind, Value, exit_features, record
from sae.backbones.survey import random_samples
from sae.core.task import Shape

FEW, MORE, OTHER = 2, 3, 5
"""Batch sizes: two to record at, so that numbers that grow with the batch are found, and one to compare at."""


@dataclass(frozen=True)
class Size:
    """A number that grows linearly with the batch size and the channels of the samples."""

    constant: int
    per_sample: int
    per_channel: int = 0


def align(items: Sequence[Any], fit: Callable[[Sequence[int]], Size]) -> Any:
    """Merge the same part of several records into one, with a `Size` where their numbers differ."""
    one, *others = items
    if all(type(other) is type(one) for other in others):
        if isinstance(one, Step) and all((other.kind, other.target) == (one.kind, one.target) for other in others):
            args, kwargs = align([item.args for item in items], fit), align([item.kwargs for item in items], fit)
            return Step(one.kind, one.target, args, kwargs)
        if isinstance(one, Mapping) and all(other.keys() == one.keys() for other in others):
            return {key: align([item[key] for item in items], fit) for key in one}
        if isinstance(one, tuple | list) and all(len(other) == len(one) for other in others):
            aligned = [align(parts, fit) for parts in zip(*items, strict=True)]
            return aligned if isinstance(one, list) else tuple(aligned)
        if isinstance(one, slice):
            return slice(*align([(item.start, item.stop, item.step) for item in items], fit))
        if all(other == one for other in others):
            return one
        if type(one) is int:
            return fit(items)
    raise CannotCutError("its forward runs other operations for another batch size or number of inputs")


@dataclass(frozen=True)
class Plan:
    """The places where a module is cut.

    Attributes:
        steps: Its operations.
        cuts: The numbers of the steps behind which it is cut: the first layer, then each exit.
        states: For each cut, the values that the next stage needs; the first are the features.
        sizes: For each cut but the last, the position in `states` and the dimension that hold the batch size.
        overwritten: The exits whose features the next stage changes in place.
    """

    steps: tuple[Step, ...]
    cuts: tuple[int, ...]
    states: tuple[tuple[int, ...], ...]
    sizes: tuple[tuple[int, int], ...]
    overwritten: frozenset[int]


def make_plan(steps: Sequence[Step], few: Record, more: Record, first: str) -> Plan:
    """Return where a module is cut, from its aligned steps and its records at two batch sizes."""
    layers = [number for number, step in enumerate(steps) if step.kind is StepKind.MODULE and step.target == first]
    if len(layers) != 1 or layers[0] > few.exits[0]:
        raise CannotCutError(f"its first layer {first} does not run once, before the first exit")
    cuts = (layers[0], *few.exits)
    if list(cuts) != sorted(cuts):
        raise CannotCutError("an exit returns a value that was computed before the previous exit")
    needed = _needed(steps, few.exits)
    used_in: dict[int, list[int]] = {number: [] for number in range(len(steps))}
    for number in needed:
        for used in _values_in(steps[number]):
            used_in[used].append(number)
    states = []
    for index, cut in enumerate(cuts):
        live = [
            number
            for number in range(cut + 1)
            if steps[number].kind is not StepKind.WEIGHT
            and (number in cuts[index + 1 :] or any(user > cut for user in used_in[number]))
        ]
        ahead = [cut] if index or cut in live else []
        states.append((*ahead, *(number for number in live if number not in ahead)))
    sizes = tuple(_place_of_batch(state, few, more) for state in states[:-1])
    return Plan(tuple(steps), cuts, tuple(states), sizes, frozenset(few.overwritten))


def _place_of_batch(state: Sequence[int], few: Record, more: Record) -> tuple[int, int]:
    for place, number in enumerate(state):
        for dimension, pair in enumerate(zip(few.shapes.get(number, ()), more.shapes.get(number, ()), strict=True)):
            if pair == (FEW, MORE):
                return place, dimension
    raise CannotCutError("no value that passes from one exit to the next has the batch size as a dimension")


def _needed(steps: Sequence[Step], ends: Iterable[int]) -> list[int]:
    """Return the numbers of the given steps and of all steps that they depend on, in order."""
    found, waiting = set(), list(ends)
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            waiting += _values_in(steps[number])
    return sorted(found)


def _values_in(step: Step) -> list[int]:
    found: list[int] = []

    def look(item: Any) -> Any:
        if isinstance(item, Value):
            found.append(item.number)
        return item

    map_aggregate((step.args, step.kwargs), look)
    return found


def check_shared(module: nn.Module, plan: Plan) -> None:
    """Refuse a plan in which two stages would use the same weights."""
    needed, owner = _needed(plan.steps, plan.cuts[1:]), dict[int, int]()
    for number in needed:
        step, stage = plan.steps[number], sum(cut < number for cut in plan.cuts)
        if step.kind is StepKind.MODULE:
            held = [*module.get_submodule(step.target).parameters(), *module.get_submodule(step.target).buffers()]
            stages = {stage}
        elif step.kind is StepKind.WEIGHT:
            held = [item for name, item in module.named_parameters() if name == step.target]
            users = (user for user in needed if number in _values_in(plan.steps[user]))
            stages = {sum(cut < user for cut in plan.cuts) for user in users}
        else:
            continue
        for item in held:
            if len({owner.setdefault(id(item), min(stages)), *stages}) > 1:
                raise CannotCutError(f"several of its stages use the weights of {step.target}")


def assemble(module: nn.Module, plan: Plan) -> tuple[nn.Module, list[nn.Module]]:
    """Return a stem and stages that hold the submodules of a module; these are not copied."""
    needed = _needed(plan.steps, plan.cuts[1:])
    pieces: list[nn.Module] = []
    for index, cut in enumerate(plan.cuts):
        before = plan.cuts[index - 1] if index else 0
        own = [number for number in needed if before < number <= cut and plan.steps[number].kind is not StepKind.WEIGHT]
        pieces.append(_assemble_piece(module, plan, index, own))
    return pieces[0], pieces[1:]


def _assemble_piece(module: nn.Module, plan: Plan, index: int, own: Sequence[int]) -> fx.GraphModule:
    """Return the piece that ends at a cut: a module from the state at the cut before to the state at this cut."""
    graph = fx.Graph()
    given = graph.placeholder("x")
    entries = plan.states[index - 1] if index else (0,)
    nodes: dict[int, fx.Node] = {entries[0]: given}
    if len(entries) > 1:
        nodes = {number: graph.call_function(operator.getitem, (given, i)) for i, number in enumerate(entries)}
    place, dimension = plan.sizes[index - 1] if index else (0, 0)
    source = nodes[entries[place]]
    if index > 1 and index - 2 in plan.overwritten:
        nodes[entries[0]] = graph.call_method("clone", (nodes[entries[0]],))

    def decoded(item: Any) -> Any:
        if isinstance(item, Value):
            if item.number not in nodes:
                nodes[item.number] = graph.get_attr(plan.steps[item.number].target)
            return nodes[item.number]
        if isinstance(item, Size):
            total: Any = item.constant
            for slope, axis in ((item.per_sample, dimension), (item.per_channel, 1)):
                if slope:
                    size = graph.call_method("size", (source, axis))
                    product = size if slope == 1 else graph.call_function(operator.mul, (size, slope))
                    total = product if total == 0 else graph.call_function(operator.add, (product, total))
            return total
        return graph.call_function(getattr, (source, "device")) if isinstance(item, torch.device) else item

    for number in own:
        step = plan.steps[number]
        args, kwargs = map_aggregate(step.args, decoded), map_aggregate(step.kwargs, decoded)
        if step.kind is StepKind.MODULE:
            nodes[number] = graph.call_module(step.target, args, kwargs)
        elif step.kind is StepKind.METHOD:
            nodes[number] = graph.call_method(step.target, args, kwargs)
        else:
            nodes[number] = graph.call_function(step.target, args, kwargs)
    leaving = plan.states[index]
    last = index == len(plan.cuts) - 1
    graph.output(nodes[leaving[0]] if last or len(leaving) == 1 else tuple(nodes[number] for number in leaving))
    return fx.GraphModule(module, graph, "Stage")


def plan_cuts(
    module: nn.Module, shape: Shape, exits: Sequence[str], first: str, narrow: nn.Module | None, narrow_shape: Shape
) -> Plan:
    """Return where a module is cut, or raise a `CannotCutError` that says why it cannot be.

    The stages are compared with the module, in evaluation and in training, which changes buffers.

    Args:
        module: The module, for one or several joined samples.
        shape: The shape of the module's input, without the batch.
        exits: Names of submodules, in the order in which they run.
        first: The name of the first layer.
        narrow: The same module for one sample, if `module` takes several.
        narrow_shape: The shape of one sample.
    """
    with torch.no_grad():
        module.eval()
        few, more = (record(module, random_samples(module, shape, count), exits, first) for count in (FEW, MORE))
        steps = align([few.steps, more.steps], lambda sizes: _size(sizes, (shape[0],)))
        if narrow is not None:
            single = record(narrow.eval(), random_samples(narrow, narrow_shape, FEW), exits, first)
            end = 1 + next((number for number, step in enumerate(steps) if step.target == first), 0)
            stem = [item.steps[:end] for item in (few, more, single)]
            steps[:end] = align(stem, lambda sizes: _size(sizes, (shape[0], narrow_shape[0])))
        plan = make_plan(steps, few, more, first)
        check_shared(module, plan)
        module.train()
        if record(module, random_samples(module, shape, FEW), exits, first).steps != few.steps:
            raise CannotCutError("outside its submodules its forward differs between training and evaluation")
        _check_same(module, plan, shape, exits)
        if narrow is not None:
            _check_same(narrow, plan, narrow_shape, exits)
    return plan


def _size(sizes: Sequence[int], channels: Sequence[int]) -> Size:
    """Fit a number that grows linearly with the batch size and the channels.

    Args:
        sizes: The number for 2 samples, for 3, and perhaps for 2 samples with fewer channels.
        channels: The channels of the first two, and perhaps of the third.
    """
    per_sample = (sizes[1] - sizes[0]) // (MORE - FEW)
    per_channel = (sizes[0] - sizes[2]) // (channels[0] - channels[1]) if len(sizes) > 2 else 0
    return Size(sizes[0] - per_sample * FEW - per_channel * channels[0], per_sample, per_channel)


def _check_same(module: nn.Module, plan: Plan, shape: Shape, exits: Sequence[str]) -> None:
    """Refuse a plan whose stages return other features than the module, in evaluation or in training."""
    x = random_samples(module, shape, OTHER)
    stem, stages = assemble(module, plan)
    for is_training in (False, True):
        for part in (module, stem, *stages):
            part.train(is_training)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            expected = exit_features(module, x, exits)
            torch.manual_seed(0)
            state = stem(x)
            for stage, wanted in zip(stages, expected, strict=True):
                state = stage(state)
                if not torch.allclose(features_of(state), wanted, rtol=1e-4, atol=1e-5):
                    raise CannotCutError(
                        "its stages, run one after the other, return other features than the whole module"
                    )
