import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sae.core.errors import DataError
from sae.data.splits import choose_rows, split_groups, split_in_time


@given(st.lists(st.integers(0, 30), min_size=3, max_size=200).filter(lambda groups: len(set(groups)) >= 3))
def test_every_group_is_in_one_split_and_none_is_empty(groups: list[int]) -> None:
    values = np.array(groups, np.float64)
    parts = split_groups(values, 0, "column")
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(groups)))
    assert all(len(part) for part in parts)
    assert sum(len(np.unique(values[part])) for part in parts) == len(np.unique(values))


def test_many_groups_are_split_in_the_usual_shares() -> None:
    groups = np.random.default_rng(0).integers(0, 100, 500).astype(np.float64)
    sizes = [len(part) for part in split_groups(groups, 3, "column")]
    assert sizes == pytest.approx([300, 100, 100], abs=15)
    sizes = [len(part) for part in split_groups(np.repeat(groups, 10), 3, "column")]
    assert sizes == pytest.approx([4000, 500, 500], abs=100)


def test_the_seed_chooses_the_groups() -> None:
    groups = np.repeat(np.arange(30.0), 3)
    one, two, other = (split_groups(groups, seed, "column")[2].tolist() for seed in (0, 0, 1))
    assert one == two != other


def test_rows_of_one_time_stay_together() -> None:
    times = np.random.default_rng(0).permutation(np.repeat(np.arange(7.0), 3))
    assert [sorted(set(times[part])) for part in split_in_time(times, "column")] == [[0, 1, 2, 3, 4], [5], [6]]


def test_times_that_cannot_be_split_are_refused() -> None:
    with pytest.raises(DataError, match="at least 3 different times"):
        split_in_time(np.array([1.0, 1.0, 2.0, 2.0]), "column")
    with pytest.raises(DataError, match="times must differ enough"):
        split_in_time(np.array([*[1.0] * 9, 2.0, 3.0]), "column")


@given(st.lists(st.integers(0, 4), min_size=1, max_size=200), st.data())
def test_a_choice_has_the_size_asked_for_and_the_shares_of_the_classes(labels: list[int], data: st.DataObject) -> None:
    targets, number = np.array(labels), data.draw(st.integers(1, len(labels)))
    chosen = choose_rows(targets, number, seed=0)
    assert len(np.unique(chosen)) == number
    wanted = number * np.bincount(targets) / len(targets)
    assert np.abs(np.bincount(targets[chosen], minlength=len(wanted)) - wanted).max() < 1


def test_a_choice_of_all_rows_is_all_rows() -> None:
    assert choose_rows(np.array([2, 0, 1, 1]), 4, seed=3).tolist() == [0, 1, 2, 3]


def test_a_smaller_choice_is_part_of_a_larger_one() -> None:
    targets = np.arange(1000) % 10
    small, large = (set(choose_rows(targets, number, seed=1).tolist()) for number in (50, 500))
    assert small < large


def test_real_targets_are_chosen_from_all_rows() -> None:
    chosen = choose_rows(np.linspace(0, 1, 50), 20, seed=0)
    assert len(set(chosen.tolist())) == 20
