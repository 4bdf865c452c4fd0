import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sae.core.errors import DataError
from sae.core.task import Classification, DataSpec, Regression, Task
from sae.data.checks import check_split
from sae.data.dataset import Dataset, Normalisation, Rows, Split, is_resolved, standardisation
from sae.data.splits import hold_out_validation, split_indices

LABELS = st.lists(st.integers(0, 4), min_size=1, max_size=200).map(np.array)


@given(LABELS, st.integers(0, 100))
def test_every_sample_is_trained_on_or_held_out(labels: np.ndarray, seed: int) -> None:
    kept, held_out = hold_out_validation(labels, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate([kept, held_out])), np.arange(len(labels)))


@given(LABELS, st.integers(0, 100))
def test_a_tenth_of_each_class_is_held_out(labels: np.ndarray, seed: int) -> None:
    _, held_out = hold_out_validation(labels, seed)
    expected = [round(0.1 * count) for count in np.bincount(labels)]
    np.testing.assert_array_equal(np.bincount(labels[held_out], minlength=len(expected)), expected)


def test_a_tenth_of_real_targets_is_held_out() -> None:
    assert len(hold_out_validation(np.linspace(0, 1, 50), 0)[1]) == 5


def test_the_three_splits_are_all_samples() -> None:
    parts = split_indices(50, 0)
    assert [len(part) for part in parts] == [30, 10, 10]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(50))


def test_a_class_too_small_to_be_split_is_refused() -> None:
    with pytest.raises(DataError, match=r"at least 5 samples of each class .* got 1"):
        split_indices(11, 0, np.array([0] * 10 + [1]))


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(0, 20), st.integers(0, 20))
def test_rows_are_the_array_indexed(rows: list[int], start: int, stop: int) -> None:
    array = np.arange(30).reshape(10, 3)
    chosen = np.array(rows, int)
    np.testing.assert_array_equal(Rows(array, chosen)[start:stop], array[chosen][start:stop])


def test_rows_have_the_shape_of_the_array_indexed() -> None:
    assert Rows(np.zeros((10, 3)), np.array([1, 1])).shape == (2, 3)


def split(count: int, targets: int | None = None) -> Split:
    return Split(np.zeros((count, 1, 4, 4), np.uint8), np.arange(count if targets is None else targets) % 2)


def dataset(train: Split, test: Split) -> Dataset:
    spec = DataSpec((1, 4, 4), Classification(2))
    return Dataset("some", spec, Normalisation((0.0,), (1.0,)), train, split(4), test)


def test_an_empty_split_is_named() -> None:
    with pytest.raises(DataError, match="but the test split of some is empty"):
        dataset(split(4), split(0))


def test_an_input_that_is_no_number_is_named() -> None:
    inputs = np.zeros((4, 3), np.float32)
    inputs[2, 1] = np.nan
    with pytest.raises(DataError, match=r"got nan in sample 2 at \[1\] of here"):
        check_split(Split(inputs, np.zeros(4, int)), DataSpec((3,), Classification(2)), "here")


def test_a_target_too_few_is_refused() -> None:
    with pytest.raises(DataError, match="the train split of some must have one target for each sample, got 4 and 3"):
        dataset(split(4, 3), split(4))


def mine(inputs: np.ndarray, targets: np.ndarray, task: Task) -> Dataset:
    split = Split(inputs, targets)
    return Dataset("mine", DataSpec((2,), task), Normalisation((0.0,) * 2, (1.0,) * 2), split, split, split)


GOOD = np.zeros((4, 2), np.float32)


def test_labels_out_of_range_are_refused() -> None:
    with pytest.raises(DataError, match=r"labels must be in \[0, 2\], got 3 at index 1 of the train split of mine"):
        mine(GOOD, np.array([0, 3, 1, 2]), Classification(3))


def test_labels_that_are_no_integers_are_refused() -> None:
    with pytest.raises(DataError, match="labels must be integers"):
        mine(GOOD, np.array([0.0, 1.0, 1.0, 0.0]), Classification(2))


def test_one_class_is_refused() -> None:
    with pytest.raises(DataError, match="at least 2 classes"):
        mine(GOOD, np.zeros(4, np.int64), Classification(1))


def test_nan_in_the_inputs_is_refused_and_located() -> None:
    bad = GOOD.copy()
    bad[2, 1] = np.nan
    with pytest.raises(DataError, match=r"inputs must be finite, got nan in sample 2 at \[1\] of the train split"):
        mine(bad, np.array([0, 1, 1, 0]), Classification(2))


def test_infinite_targets_are_refused() -> None:
    with pytest.raises(DataError, match="targets must be finite, got inf at index 3"):
        mine(GOOD, np.array([0.0, 1.0, 2.0, np.inf], np.float32), Regression())


def test_a_split_without_samples_is_refused() -> None:
    with pytest.raises(DataError, match="every split must hold samples"):
        mine(GOOD[:0], np.zeros(0, np.int64), Classification(2))


def test_samples_and_targets_must_be_as_many() -> None:
    with pytest.raises(DataError, match="one target for each sample, got 4 and 3"):
        mine(GOOD, np.array([0, 1, 1]), Classification(2))


def test_samples_of_another_shape_are_refused() -> None:
    with pytest.raises(DataError, match=r"samples must have shape \(2,\), got \(3,\)"):
        mine(np.zeros((4, 3), np.float32), np.array([0, 1, 1, 0]), Classification(2))


def test_a_constant_feature_is_only_centred() -> None:
    normalisation = standardisation(np.array([[1.0, 5.0], [3.0, 5.0], [9.0, 9.0]]), np.array([0, 1]))
    assert normalisation == Normalisation((2.0, 5.0), (1.0, 1.0))


def test_rounding_does_not_make_a_constant_feature_vary() -> None:
    values = np.full((7, 1), 0.1)
    assert values.std() > 0
    assert standardisation(values, np.arange(7)) == Normalisation((0.1,), (1.0,))


@pytest.mark.parametrize(("dtype", "is_kept"), [(np.float32, False), (np.float64, True)])
def test_float32_loses_the_spread_of_unix_time(dtype: type[np.floating], is_kept: bool) -> None:
    assert is_resolved(6e4, 1.0, dtype)
    assert is_resolved(1.7e9, 77.0, dtype) == is_kept


def test_targets_that_do_not_vary_are_refused() -> None:
    with pytest.raises(DataError, match="must be finite and vary"):
        Regression(mean=1.0, std=0.0)
