import numpy as np
import pytest

from sae.config.run import DataConfig
from sae.core.errors import DataError
from sae.core.task import Classification, DataSpec, Regression
from sae.data.catalogue import CATALOGUE, load, suggestions


def test_digits_are_enlarged_to_sixteen_pixels() -> None:
    digits = load(DataConfig(name="digits"))
    assert digits.spec == DataSpec((1, 16, 16), Classification(10))
    assert [len(digits.split(name)) for name in ("train", "val", "test")] == [1078, 359, 360]
    image = digits.train.inputs[:1][0, 0]
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
