from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from sae.core.errors import ConfigError
from sae.search.holes import Hole, fill_holes, find_holes, read_holes, write_holes

KINDS: list[tuple[dict[str, Any], Any]] = [
    ({"int": [1, 4]}, IntDistribution(1, 4)),
    ({"float": [0, 1]}, FloatDistribution(0, 1)),
    ({"log": [1e-3, 1]}, FloatDistribution(1e-3, 1, log=True)),
    ({"choice": [1, 4]}, CategoricalDistribution([1, 4])),
    ({"choice": [[1, 1], [1, 2]]}, CategoricalDistribution(["[1, 1]", "[1, 2]"])),
    ({"choice": ["a", None, True]}, CategoricalDistribution(["a", None, True])),
]


@pytest.mark.parametrize(("written", "distribution"), KINDS)
def test_a_hole_is_a_distribution_of_optuna(written: dict[str, Any], distribution: Any) -> None:
    hole = read_holes({"key": written})["key"]
    assert hole.distribution() == distribution


@pytest.mark.parametrize("written", [written for written, _ in KINDS])
def test_writing_is_the_opposite_of_reading(written: dict[str, Any]) -> None:
    values = {"section": {"key": written, "fixed": 3}, "other": "x"}
    assert write_holes(read_holes(values)) == values


def test_what_is_no_hole_stays() -> None:
    values = {"train": {"lr": 1e-3}, "method": {"temperature": {"start": 1.0, "end": 0.1}}, "seed": 0}
    assert read_holes(values) == values


def test_holes_are_found_by_their_paths() -> None:
    values = read_holes({"method": {"temperature": {"start": {"log": [0.1, 1]}}}, "seed": {"int": [0, 3]}})
    assert dict(find_holes(values)) == {
        "method.temperature.start": Hole("log", (0.1, 1)),
        "seed": Hole("int", (0, 3)),
    }


def test_a_choice_is_filled_with_the_value_itself() -> None:
    values = read_holes({"backbone": {"blocks": {"choice": [[1, 1], [1, 2]]}, "width": {"int": [1, 4]}}})
    filled = fill_holes(values, {"backbone.blocks": "[1, 2]"})
    assert filled["backbone"]["blocks"] == [1, 2]
    assert isinstance(filled["backbone"]["width"], Hole)  # not suggested, so still open


def test_only_ranges_of_whole_numbers_and_choices_are_finite() -> None:
    assert Hole("int", (2, 4)).points() == [2, 3, 4]
    assert Hole("choice", ([1], 2)).points() == ["[1]", 2]
    assert Hole("float", (0, 1)).points() is None
    assert Hole("log", (0.1, 1)).points() is None


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"int": 4}, r"train.key: int takes a list, e.g. \{int: \[1, 4\]\}, got 4"),
        ({"int": []}, "int takes a list"),
        ({"choice": "abc"}, "choice takes a list"),
        ({"int": [1, 2, 3]}, "int takes both ends of a range as whole numbers"),
        ({"int": [1, 2.5]}, "whole numbers"),
        ({"int": [True, 4]}, "whole numbers"),
        ({"int": ["depth", 4]}, "depth for the upper end"),
        ({"int": [1, "width"]}, "depth for the upper end"),
        ({"float": ["a", 1]}, "float takes both ends of a range as numbers"),
        ({"float": [0, "depth"]}, "numbers"),
        ({"int": [4, 1]}, r"must not be above the upper end, got \[4, 1\]"),
        ({"float": [float("nan"), 1]}, "must not be above"),
        ({"log": [0, 1]}, r"logarithmic scale must be above 0, got \[0, 1\]"),
        ({"choice": [1, 1]}, r"choices must differ, got \[1, 1\]"),
        ({"choice": [[1], [1]]}, "choices must differ"),
    ],
)
def test_a_bad_hole_is_refused_by_its_path(written: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_holes({"train": {"key": written}})


@given(st.lists(st.one_of(st.integers(), st.text(), st.none(), st.lists(st.integers())), min_size=1, unique_by=repr))
def test_every_choice_comes_back_as_it_was_given(choices: list[Any]) -> None:
    hole = read_holes({"key": {"choice": choices}})["key"]
    assert [hole.value(name) for name in hole.points()] == choices
