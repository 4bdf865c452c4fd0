from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sae.analysis.comparison import best_by_kind, kind_means, mean_ranks
from sae.analysis.results import Result
from sae.core.errors import ConfigError
from sae.core.objectives import objective
from tests.results import result

TASK = "classification"
SE, EE = {"name": "sae", "inputs": 1, "exits": 1}, {"name": "sae", "inputs": 1, "exits": 2}
F1, NLL = objective("f1", TASK), objective("nll", TASK)


def test_a_class_counts_as_the_mean_of_its_configurations() -> None:
    found = [
        result("a", {"f1": 0.9}, method=EE),
        result("b", {"f1": 0.5}, method=EE),
        result("c", {"nll": 1.0}, method=EE),
    ]
    assert kind_means(found, "f1") == {"EE": pytest.approx(0.7)}


def test_the_better_ranks_first() -> None:
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
    assert ranks["standard"].std == pytest.approx(0.5)  # of all data sets, as in the paper; that of a sample is 0.71
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


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=2))
def test_equal_classes_share_the_average_of_their_ranks(values: list[float]) -> None:
    data = {"x": [result("a", {"nll": values[0]}), result("b", {"nll": values[1]}, method=SE)]}
    assert sum(rank.mean for rank in mean_ranks(data, ["nll"], TASK)) == 3


def test_each_class_has_its_best_in_each_metric() -> None:
    found = [
        result("sae/1", {"f1": 0.8, "nll": 0.5}, method=EE),
        result("standard/0", {"f1": 0.7, "nll": 0.6}),
        result("sae/2", {"f1": 0.9, "nll": 0.7}, method=EE),
    ]
    assert labels(best_by_kind(found, ["f1", "nll"], TASK)) == {
        "EE": {"f1": "sae/2", "nll": "sae/1"},
        "standard": {"f1": "standard/0", "nll": "standard/0"},
    }


def labels(best: dict[str, dict[str, Result]]) -> dict[str, dict[str, str]]:
    return {kind: {metric: item.label for metric, item in found.items()} for kind, found in best.items()}


def test_of_equals_the_cheapest_is_the_best() -> None:
    found = [
        result("a", {"nll": 1.0}, flops=None),
        result("b", {"nll": 1.0}, flops=20),
        result("c", {"nll": 1.0}, flops=10),
    ]
    assert labels(best_by_kind(found, ["nll"], TASK)) == {"standard": {"nll": "c"}}


def test_a_class_without_numbers_has_no_best() -> None:
    found = [result("a", {"nll": 1.0}), result("b", {"f1": 1.0}, method=EE, shift={"nll": 1.0})]
    assert labels(best_by_kind(found, ["nll"], TASK)) == {"standard": {"nll": "a"}, "EE": {}}
    assert labels(best_by_kind(found, ["nll"], TASK, "shift")) == {"standard": {}, "EE": {"nll": "b"}}
