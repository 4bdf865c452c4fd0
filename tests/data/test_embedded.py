import numpy as np
import pytest

from sae.config.run import DataConfig
from sae.core.errors import DataError
from sae.core.task import Classification, DataSpec, Regression, Task
from sae.data.catalogue import CATALOGUE, load, suggestions
from sae.data.dataset import Dataset, Normalisation, Split, standardisation


def dataset(inputs: np.ndarray, targets: np.ndarray, task: Task) -> Dataset:
    split = Split(inputs, targets)
    return Dataset("mine", DataSpec((2,), task), Normalisation((0.0,) * 2, (1.0,) * 2), split, split, split)


GOOD = np.zeros((4, 2), np.float32)


def test_digits_are_enlarged_to_sixteen_pixels() -> None:
    digits = load(DataConfig(name="digits"))
    assert digits.spec == DataSpec((1, 16, 16), Classification(10))
    assert [len(digits.split(name)) for name in ("train", "val", "test")] == [1078, 359, 360]
    image = digits.train.inputs[0, 0]
    assert (image[::2, ::2] == image[1::2, 1::2]).all()


def test_digits_constants_are_those_of_the_digits() -> None:
    digits = load(DataConfig(name="digits"))
    pixels = np.concatenate([digits.split(name).inputs[:].ravel() for name in ("train", "val", "test")])
    assert digits.normalisation.mean[0] == pytest.approx(pixels.mean(), abs=0.5)
    assert digits.normalisation.std[0] == pytest.approx(pixels.std(), abs=0.5)


def test_diabetes_targets_are_standardised_on_the_training_split() -> None:
    diabetes = load(DataConfig(name="diabetes"))
    assert isinstance(diabetes.spec.task, Regression)
    assert diabetes.spec.task.mean == pytest.approx(diabetes.train.targets.mean(), rel=1e-5)
    assert diabetes.spec.task.std == pytest.approx(diabetes.train.targets.std(), rel=1e-5)


@pytest.mark.parametrize("name", ["digits", "diabetes"])
def test_splits_are_seeded_and_share_no_sample(name: str) -> None:
    one, two, other = (load(DataConfig(name=name, split_seed=seed)) for seed in (0, 0, 1))
    assert np.array_equal(one.test.inputs[:], two.test.inputs[:])
    assert not np.array_equal(one.test.targets, other.test.targets)
    rows = [{row.tobytes() for row in one.split(part).inputs[:]} for part in ("train", "val", "test")]
    assert not rows[0] & rows[2]
    assert not rows[0] & rows[1]


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(DataError, match=r"data must be one of .*digits.*; got 'digit', did you mean digits\?"):
        suggestions("digit")


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_entry_suggests_a_backbone(name: str) -> None:
    assert "name" in suggestions(name)["backbone"]


def test_labels_out_of_range_are_refused() -> None:
    with pytest.raises(DataError, match=r"labels must be in \[0, 2\], got 3 at index 1 of the train split of mine"):
        dataset(GOOD, np.array([0, 3, 1, 2]), Classification(3))


def test_labels_that_are_no_integers_are_refused() -> None:
    with pytest.raises(DataError, match="labels must be integers"):
        dataset(GOOD, np.array([0.0, 1.0, 1.0, 0.0]), Classification(2))


def test_one_class_is_refused() -> None:
    with pytest.raises(DataError, match="at least 2 classes"):
        dataset(GOOD, np.zeros(4, np.int64), Classification(1))


def test_nan_in_the_inputs_is_refused_and_located() -> None:
    bad = GOOD.copy()
    bad[2, 1] = np.nan
    with pytest.raises(DataError, match=r"inputs must be finite, got nan in sample 2 at \[1\] of the train split"):
        dataset(bad, np.array([0, 1, 1, 0]), Classification(2))


def test_infinite_targets_are_refused() -> None:
    with pytest.raises(DataError, match="targets must be finite, got inf at index 3"):
        dataset(GOOD, np.array([0.0, 1.0, 2.0, np.inf], np.float32), Regression())


def test_a_split_without_samples_is_refused() -> None:
    with pytest.raises(DataError, match="every split must hold samples"):
        dataset(GOOD[:0], np.zeros(0, np.int64), Classification(2))


def test_samples_and_targets_must_be_as_many() -> None:
    with pytest.raises(DataError, match="one target for each sample, got 4 and 3"):
        dataset(GOOD, np.array([0, 1, 1]), Classification(2))


def test_samples_of_another_shape_are_refused() -> None:
    with pytest.raises(DataError, match=r"samples must have shape \(2,\), got \(3,\)"):
        dataset(np.zeros((4, 3), np.float32), np.array([0, 1, 1, 0]), Classification(2))


def test_a_constant_feature_is_only_centred() -> None:
    normalisation = standardisation(np.array([[1.0, 5.0], [3.0, 5.0]]))
    assert normalisation == Normalisation((2.0, 5.0), (1.0, 1.0))


def test_targets_that_do_not_vary_are_refused() -> None:
    with pytest.raises(DataError, match="must be finite and vary"):
        Regression(mean=1.0, std=0.0)
