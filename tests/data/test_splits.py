from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sae.config.run import DataConfig, ValToo
from sae.core.errors import DataError
from sae.data import splits
from sae.data.catalogue import load
from sae.data.dataset import Dataset, Gathered, Split
from sae.data.splits import choose_rows, halves, split_groups, split_in_time, trained_on
from tests.data.samples import write_csv


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


def test_halves_have_the_shares_of_the_classes_and_all_rows() -> None:
    split = Split(np.zeros((40, 1)), np.arange(40) % 4)
    first, second = halves(split, seed=0)
    assert sorted([*first, *second]) == list(range(40))
    assert np.bincount(split.targets[first]).tolist() == np.bincount(split.targets[second]).tolist() == [5] * 4


def grouped(path: Path, rule: str, order: np.ndarray | None = None) -> Dataset:
    """A table of 20 groups of 6 rows, one after the other in time, whose feature tells the group."""
    rows = [
        {"number": group + 0.01 * row, rule: group, "price": group % 7 + row} for group in range(20) for row in range(6)
    ]
    data = write_csv(path, [rows[index] for index in (range(len(rows)) if order is None else order)])
    return load(DataConfig(name=str(data), task="regression", target="price", **{rule: rule}))


@pytest.mark.parametrize("val_too", ["first", "second"])
def test_no_group_is_trained_on_and_validated_on(tmp_path: Path, val_too: ValToo) -> None:
    given = grouped(tmp_path / "table.csv", "group")
    found = trained_on(given, val_too, split_seed=0)
    train, val = ({*np.floor(part.inputs[:][:, 0]).tolist()} for part in (found.train, found.val))
    assert not train & val
    assert len(found.train) + len(found.val) == len(given.train) + len(given.val)
    assert 0 < len(found.val) < len(given.val)


def test_the_first_half_is_the_earlier_one(tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(120)
    found = trained_on(grouped(tmp_path / "table.csv", "time", order), "first", split_seed=0)
    assert np.floor(found.train.inputs[:][:, 0]).max() < np.floor(found.val.inputs[:][:, 0]).min()


def test_validation_samples_of_one_group_cannot_be_halved() -> None:
    with pytest.raises(DataError, match=r"several groups or times to be halved.*leave out --refit"):
        halves(Split(np.zeros((4, 1)), np.zeros(4), blocks=np.ones(4)), seed=0)


@pytest.mark.parametrize("val_too", ["first", "all"])
def test_large_samples_are_not_copied_to_train_on_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, val_too: ValToo
) -> None:
    given = grouped(tmp_path / "table.csv", "group")
    small = trained_on(given, val_too, split_seed=0)
    monkeypatch.setattr(splits, "MOST_COPIED", 0)
    large = trained_on(given, val_too, split_seed=0)
    assert isinstance(small.train.inputs, np.ndarray)
    assert isinstance(large.train.inputs, Gathered)
    for one, other in ((small.train, large.train), (small.val, large.val)):
        np.testing.assert_array_equal(one.inputs[:], other.inputs[:])
        np.testing.assert_array_equal(one.targets, other.targets)
