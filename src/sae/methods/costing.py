"""The cost of a configuration, without training it."""

from collections.abc import Sequence
from functools import cache

import torch

from sae.backbones import MemberNetwork
from sae.config.backbones import BackboneSource
from sae.config.methods import MethodSettings
from sae.config.run import NetworkConfig
from sae.core.errors import ConfigError
from sae.core.task import Classification, DataSpec, Shape
from sae.measure.cost import Cost, measure_cost, measure_shipped_cost
from sae.methods import construct


def cost_of(
    method: MethodSettings,
    backbone: BackboneSource,
    shape: Shape,
    num_outputs: int,
    active: Sequence[int] | None = None,
) -> Cost:
    """Return parameters and FLOPs per sample of the pruned network, as the paper counts them.

    Args:
        method: The settings of the method.
        backbone: The settings of the backbone.
        shape: The shape of one sample.
        num_outputs: The number of classes, or 2 for a mean and a log-variance.
        active: How many inputs use each exit; by default all N use the last K. Which exits a
            trained network uses is learnt, so before training this is an assumption.
    """
    return measure_cost(_pruned_network(method, backbone, shape, num_outputs, active), shape)


def shipped_cost_of(
    method: MethodSettings,
    backbone: BackboneSource,
    shape: Shape,
    num_outputs: int,
    active: Sequence[int] | None = None,
) -> Cost:
    """Return parameters and FLOPs per sample of the exported network; the arguments are those of `cost_of`."""
    return measure_shipped_cost(_pruned_network(method, backbone, shape, num_outputs, active), shape)


def _pruned_network(
    method: MethodSettings, backbone: BackboneSource, shape: Shape, num_outputs: int, active: Sequence[int] | None
) -> MemberNetwork:
    with torch.device("meta"):  # sizes without weights
        built = construct(method, backbone, DataSpec(shape, Classification(num_outputs))).eval()
    if method.has_exits:
        unused = backbone.depth - method.trained_exits
        return built.pruned_to(active or [0] * unused + [method.num_slots] * method.trained_exits)
    if active is not None:
        raise ConfigError(
            f"--active needs a method with early exits, but {method.name} has one exit, the last: drop it"
        )
    return built.pruned()


def cost_bounds(config: NetworkConfig, spec: DataSpec, *, shipped: bool = False) -> Cost:
    """Return lower bounds of the cost of a configuration, which are known before it is trained.

    Which exits an SAE uses is learnt, and it may be evaluated at fewer exits than it was trained
    with: in the cheapest case all inputs use the one cheapest exit. Parameters and FLOPs have
    separate bounds, because the exit with the fewest parameters may not have the fewest FLOPs.

    Args:
        config: The method and the backbone.
        spec: The shape of a sample and the task.
        shipped: Whether to count the exported network instead of the pruned one.
    """
    return _bounds(config.method.cheapest(), config.backbone, spec.shape, spec.task.num_outputs, shipped)


@cache
def _bounds(method: MethodSettings, backbone: BackboneSource, shape: Shape, num_outputs: int, shipped: bool) -> Cost:
    count = shipped_cost_of if shipped else cost_of
    if not method.has_exits:
        return count(method, backbone, shape, num_outputs)
    ways = ([0] * j + [method.num_slots] + [0] * (backbone.depth - j - 1) for j in range(backbone.depth))
    costs = [count(method, backbone, shape, num_outputs, active) for active in ways]
    return Cost(params=min(cost.params for cost in costs), flops=min(cost.flops for cost in costs), by_part={})
