from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sae.analysis.ranking import average_ranks, class_means, mean_ranks
from sae.core.errors import ConfigError
from tests.results import result

SE, EE = {"name": "sae", "inputs": 1, "exits": 1}, {"name": "sae", "inputs": 1, "exits": 2}
TASK = "classification"


@given(st.lists(st.integers(-3, 3), max_size=9))
def test_ranks_are_those_of_scipy(values: list[int]) -> None:
    losses = np.array(values, dtype=np.float64)
    np.testing.assert_array_equal(average_ranks(losses), stats.rankdata(losses))


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5]), min_size=1, max_size=9))
def test_ranks_sum_to_what_they_must(values: list[float]) -> None:
    assert average_ranks(np.array(values)).sum() == len(values) * (len(values) + 1) / 2


def test_a_class_counts_as_the_mean_of_its_configurations() -> None:
    found = [
        result("a", {"f1": 0.9}, method=EE),
        result("b", {"f1": 0.5}, method=EE),
        result("c", {"nll": 1.0}, method=EE),
    ]
    assert class_means(found, "f1") == {"EE": pytest.approx(0.7)}


def test_more_of_what_is_better_ranks_first() -> None:
    data = {"x": [result("a", {"f1": 0.9, "nll": 0.9}), result("b", {"f1": 0.8, "nll": 0.8}, method=SE)]}
    ranks = {(rank.metric, rank.kind): rank.mean for rank in mean_ranks(data, ["f1", "nll"], TASK)}
    assert ranks == {("f1", "standard"): 1, ("f1", "SE"): 2, ("nll", "standard"): 2, ("nll", "SE"): 1}


def test_ranks_are_averaged_over_the_data_sets_a_class_is_in() -> None:
    data = {
        "x": [result("a", {"nll": 1.0}), result("b", {"nll": 2.0}, method=SE), result("c", {"nll": 2.0}, method=EE)],
        "y": [result("a", {"nll": 5.0}), result("b", {"nll": 4.0}, method=SE)],
    }
    ranks = {rank.kind: rank for rank in mean_ranks(data, ["nll"], TASK)}
    assert (ranks["standard"].mean, ranks["standard"].datasets) == (1.5, 2)
    assert ranks["standard"].std == pytest.approx(np.std([1, 2], ddof=1))
    assert (ranks["SE"].mean, ranks["SE"].datasets) == (1.75, 2)  # 2.5, shared with EE, and 1
    assert (ranks["EE"].mean, ranks["EE"].std, ranks["EE"].datasets) == (2.5, None, 1)


def test_ranks_under_shift_are_by_what_was_measured_there_and_by_costs() -> None:
    data = {
        "x": [
            result("a", {"nll": 1.0}, shift={"nll": 3.0}, flops=10),
            result("b", {"nll": 2.0}, method=SE, shift={"nll": 2.0}, flops=20),
            result("c", {"nll": 0.5}, method=EE, flops=30),
        ]
    }
    ranks = {(rank.metric, rank.kind): rank.mean for rank in mean_ranks(data, ["nll", "flops"], TASK, "shift")}
    assert ranks == {
        ("nll", "standard"): 2,
        ("nll", "SE"): 1,
        ("flops", "standard"): 1,
        ("flops", "SE"): 2,
        ("flops", "EE"): 3,
    }


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(ConfigError, match="an objective of classification must be one of"):
        mean_ranks({"x": [result("a", {"mse": 1.0})]}, ["mse"], TASK)


@given(st.lists(st.lists(st.floats(0, 9), min_size=3, max_size=3), min_size=1, max_size=5))
def test_mean_ranks_are_those_of_a_plain_loop(rows: list[list[float]]) -> None:
    methods: tuple[dict[str, Any], ...] = ({"name": "standard"}, SE, EE)
    data = {
        str(index): [result("r", {"nll": value}, method=method) for value, method in zip(row, methods, strict=True)]
        for index, row in enumerate(rows)
    }
    expected = np.mean([stats.rankdata(row) for row in rows], axis=0)
    assert [rank.mean for rank in mean_ranks(data, ["nll"], TASK)] == pytest.approx(expected.tolist())
