"""The least that a configuration may cost."""

import itertools

import pytest

from sae.config.run import NetworkConfig
from sae.config.settings import parse
from sae.core.task import Classification, DataSpec
from sae.methods.costing import cost_bounds, cost_of, shipped_cost_of

SPEC = DataSpec((1, 8, 8), Classification(3))


@pytest.mark.parametrize("shipped", [False, True])
def test_no_choice_of_exits_is_below_the_bound(shipped: bool) -> None:
    method = {"name": "sae", "inputs": 2, "exits": 2}
    config = parse(NetworkConfig, {"method": method, "backbone": {"name": "fc", "depth": 3}})
    bound = cost_bounds(config, SPEC, shipped=shipped)
    count = shipped_cost_of if shipped else cost_of
    ways = [way for way in itertools.product(range(3), repeat=3) if sum(way) >= 2]
    costs = [count(config.method, config.backbone, SPEC.shape, 3, way) for way in ways]
    assert bound.flops == min(cost.flops for cost in costs)
    assert bound.params == min(cost.params for cost in costs)


def test_the_shipped_bound_is_the_lower_one() -> None:
    config = parse(NetworkConfig, {"method": {"name": "sae", "inputs": 4}, "backbone": {"name": "fc"}})
    assert cost_bounds(config, SPEC, shipped=True).flops < cost_bounds(config, SPEC).flops
