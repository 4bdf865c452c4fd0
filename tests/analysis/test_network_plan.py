from collections.abc import Mapping
from typing import Any

import pytest

from sae.analysis.network_plan import NetworkPlan, describe_network, network_plan
from sae.records.evaluation import PartCosts
from sae.records.network import Member, Network, PrunedReading
from tests.builders import run_config
from tests.networks import plan_of, sae_plan
from tests.results import small_config


@pytest.mark.parametrize(
    ("method", "active", "words"),
    [
        ({"name": "standard"}, (1,), "a standard network (W=1 D=3)"),
        ({"name": "ensemble", "members": 4}, (1,), "a deep ensemble (M=4 W=1 D=3)"),
        ({"inputs": 1, "exits": 1}, (0, 1, 0), "one network (N=1 K=1 W=1 D=3), read at exit 2 of 3"),
        ({"inputs": 1, "exits": 3}, (0, 0, 1), "one network (N=1 K=3 W=1 D=3), read at its last exit (3 of 3)"),
        ({"inputs": 1, "exits": 3}, (1, 1, 1), "one network with early exits (N=1 K=3 W=1 D=3), read at all 3 exits"),
        (
            {"inputs": 2, "exits": 3},
            (0, 2, 0),
            "one network with several inputs (N=2 K=3 W=1 D=3), read at exit 2 of 3",
        ),
        (
            {"inputs": 2, "exits": 3},
            (1, 0, 1),
            "one network with several inputs and some of its exits (N=2 K=3 W=1 D=3), read at exits 1 and 3 of 3",
        ),
        (
            {"inputs": 3, "exits": 1},
            (1, 1, 1),
            "one network with several inputs and all exits (N=3 K=1 W=1 D=3), read at all 3 exits",
        ),
        (
            {"inputs": 2, "exits": 3, "streams": 2},
            (0, 0, 4),
            "one network in several streams (N=2 K=3 G=2 W=1 D=3), read at its last exit (3 of 3)",
        ),
    ],
)
def test_a_network_is_called_by_the_exits_it_uses_not_by_those_it_was_trained_for(
    method: Mapping[str, Any], active: tuple[int, ...], words: str
) -> None:
    assert describe_network(small_config(**{"name": "sae", **method}), active) == words


def part(name: str, cost: int = 1) -> PartCosts:
    return PartCosts(name=name, params=cost, flops=cost, shipped_params=cost, shipped_flops=cost)


def plan(kept: list[str], whole: list[str], members: list[Member]) -> NetworkPlan:
    """A network that names its parts as it likes."""
    reading = PrunedReading(eval_exits=1, members=tuple(members), parts=tuple(map(part, kept)))
    network = Network(exits=1, depth=2, passes=1, whole=tuple(map(part, whole)), readings=(reading,))
    return network_plan(network, run_config(method={"name": "standard"}), "run", 1)


def test_the_weights_of_an_input_sum_to_one_over_its_exits() -> None:
    found = sae_plan(3, 2, eval_exits=2)
    exits = [row.exit for row in found.rows if row.exit]
    assert found.columns == ("input 1", "input 2", "input 3")
    for column in range(3):
        weights = [one.weights[column] for one in exits]
        assert sum(weights) == pytest.approx(1.0)
        assert sum(weight > 0 for weight in weights) == 2
    assert found.num_predictions == 6


def test_what_no_input_uses_is_pruned_and_what_is_left_sums_to_the_whole() -> None:
    found, whole = sae_plan(2, 1, eval_exits=1), sae_plan(2, 1, eval_exits=3)
    assert whole.pruned == part("pruned", 0)
    assert found.used.params + found.pruned.params == whole.used.params
    assert found.used.flops + found.pruned.flops == whole.used.flops
    for row in found.rows:
        assert row.exit is None or row.exit.part.is_used == any(row.exit.weights)
    assert [row.part.label for row in found.rows] == [row.part.label for row in whole.rows]


def test_networks_that_share_nothing_stand_side_by_side() -> None:
    found = plan_of("ensemble")
    assert [one.label for one in found.networks] == ["network 1", "network 2"]
    assert (found.rows, found.shares, found.num_predictions) == ((), (0.5, 0.5), 2)


def test_passes_through_one_network_are_columns_at_its_exit() -> None:
    found = plan_of("mc_dropout")
    assert (found.passes, found.columns) == (3, ("pass 1", "pass 2", "pass 3"))
    assert [row.part.label for row in found.rows if row.exit] == [found.rows[-1].part.label]


def test_members_leave_at_the_last_part_if_no_part_is_named_as_an_exit() -> None:
    found = plan(["body", "heads"], ["body", "heads"], [Member(input=None, exit=2, weight=0.5)] * 2)
    assert [(row.part.label, row.exit.weights if row.exit else None) for row in found.rows] == [
        ("body", None),
        ("heads", (0.5, 0.5)),
    ]
    assert [one.label for one in found.parts] == ["body", "heads"]


def test_an_exit_without_a_stage_of_its_number_is_not_lost() -> None:
    found = plan(["body", "exit_2"], ["body", "exit_1", "exit_2"], [Member(input=None, exit=2, weight=1.0)])
    assert [one.label for one in found.parts if one.is_used] == ["body", "exit 2"]
    assert [(row.part.label, row.part.is_used, row.exit.weights if row.exit else None) for row in found.rows] == [
        ("body", True, None),
        ("exit 1", False, (0.0,)),
        ("exit 2", True, (1.0,)),
    ]


def test_inputs_that_do_not_count_the_same_have_their_weights_in_the_mean() -> None:
    members = [Member(input=2, exit=1, weight=0.7), Member(input=3, exit=2, weight=0.3)]
    found = plan(["stem", "stage_1", "exit_1", "stage_2", "exit_2"], ["stem"], members)
    assert [row.exit.weights for row in found.rows if row.exit] == [(0.0, 0.7, 0.0), (0.0, 0.0, 0.3)]
    assert (found.has_theta, found.num_inputs, len(found.columns)) == (False, 2, 3)
    assert sae_plan(3, 2).has_theta
