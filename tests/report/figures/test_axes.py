import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sae.core.objectives import ALL_COSTS, METRICS, metrics_of, objective
from sae.report.figures.axes import (
    domain_of,
    log_domain_of,
    log_ticks,
    spread_apart,
    whole_ticks,
)
from sae.report.labels import objective_title

numbers = st.floats(0, 1)


@given(st.lists(numbers, min_size=1, max_size=12))
def test_labels_are_spread_apart_in_their_order_and_within_bounds(values: list[float]) -> None:
    gap = 0.06
    places = spread_apart(values, gap, 0.0, 1.0)
    ordered = sorted(places)
    assert all(second - first >= gap - 1e-9 for first, second in itertools.pairwise(ordered))
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in places)
    for first, one in zip(values, places, strict=True):
        assert all(one < other for second, other in zip(values, places, strict=True) if first < second)


def test_labels_that_are_apart_stay_where_they_are() -> None:
    assert spread_apart([0.9, 0.1, 0.5], 0.2, 0.0, 1.0) == pytest.approx([0.9, 0.1, 0.5])


def test_more_labels_than_there_is_room_for_share_the_room() -> None:
    assert spread_apart([0.5] * 5, 1.0, 0.0, 1.0) == pytest.approx([0, 0.25, 0.5, 0.75, 1])


@given(st.lists(st.floats(1e-3, 1e12), min_size=1, max_size=5))
def test_a_logarithmic_axis_holds_its_values_and_has_a_tick(values: list[float]) -> None:
    low, high = log_domain_of(values)
    assert 0 < low < min(values)
    assert max(values) < high
    ticks = log_ticks(low, high)
    assert ticks
    assert all(low <= tick <= high for tick in ticks)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5))
def test_an_axis_holds_its_values(values: list[float]) -> None:
    low, high = domain_of(values)
    assert low <= min(values) <= max(values) <= high
    assert low < high or math.isclose(min(values), max(values))


@given(st.integers(0, 1000), st.integers(0, 10_000))
def test_whole_ticks_are_a_few_different_whole_numbers_within_the_values(low: int, span: int) -> None:
    ticks = whole_ticks(low, low + span)
    assert 1 <= len(ticks) <= 8
    assert len(set(ticks)) == len(ticks)
    assert all(isinstance(tick, int) and low <= tick <= low + span for tick in ticks)


@pytest.mark.parametrize("task", sorted({entry.task for entry in METRICS}))
def test_everything_that_can_be_optimised_has_a_name_for_people(task: str) -> None:
    for name in (*metrics_of(task), *ALL_COSTS):
        assert "_" not in objective(name, task).label


def test_a_title_says_which_way_is_better() -> None:
    assert objective_title(objective("f1", "classification")) == "F1 ↑"
    assert objective_title(objective("nll@shift", "regression")) == "NLL under shift ↓"
