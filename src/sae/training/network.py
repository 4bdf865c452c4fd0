"""The trained network described: its parts and its members at every K′."""

from collections.abc import Sequence

from sae.config.methods import MethodSettings
from sae.core.task import DataSpec
from sae.methods import Method
from sae.records.evaluation import PartCosts, Reading
from sae.records.network import Member, Network, PrunedReading
from sae.training.evaluator import describe_pruned


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
