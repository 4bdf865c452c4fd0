from collections.abc import Mapping
from typing import Any

import pytest

from sae.analysis.exit_use import describe_network
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
