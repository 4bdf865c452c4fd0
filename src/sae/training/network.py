"""The trained network described: its costs, its parts and its members at every K′."""

from collections.abc import Iterable, Sequence

from sae.backbones import MemberNetwork
from sae.config.methods import MethodSettings
from sae.core.task import DataSpec
from sae.measure.cost import Cost, PartCost, measure_cost, measure_shipped_cost
from sae.methods import Method
from sae.records.evaluation import PartCosts, Reading
from sae.records.network import Member, Network, PrunedReading


def measure_costs(method: Method, spec: DataSpec, known: Iterable[Reading] = ()) -> list[Reading]:
    """Return the exits in use and the costs at every K′, without metrics.

    Args:
        method: The method.
        spec: The shape of samples and the task.
        known: Costs of this method that were counted before, perhaps when it used other exits.
    """
    counted = {(reading.eval_exits, reading.active): reading for reading in known}
    return [
        counted.get((eval_exits, method.active_counts(eval_exits))) or describe_exits(method, eval_exits, spec)
        for eval_exits in method.exit_choices
    ]


def describe_exits(method: Method, eval_exits: int, spec: DataSpec) -> Reading:
    """Return which exits a network uses at K′ and what it then costs, pruned and as shipped; without metrics."""
    return describe_pruned(method.pruned(eval_exits), eval_exits, method.active_counts(eval_exits), spec)


def describe_pruned(pruned: MemberNetwork, eval_exits: int, active: tuple[int, ...], spec: DataSpec) -> Reading:
    """Return what a pruned network costs; without metrics."""
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
    """Join the parts of a pruned network with those of the exported one, which sum to the costs of either."""
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
        costs: What `measure_costs` returned for it.
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
