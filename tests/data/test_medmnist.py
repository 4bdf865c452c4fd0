from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sae.config.settings import to_yaml
from sae.core.errors import ConfigError, DataError
from sae.core.task import Classification, Regression
from sae.data import published
from sae.data.binding import Binding, load_bound
from sae.data.catalogue import load, resolve
from sae.data.dataset import Split
from sae.data.published import MEDMNIST
from tests.data.samples import data_config, md5_of, npz_arrays, write_npz


def publish(monkeypatch: pytest.MonkeyPatch, root: Path, name: str, side: int = 28) -> None:
    """Put a small file under a published name, with its sum in the table."""
    facts = MEDMNIST[name]
    root.mkdir(exist_ok=True)
    arrays = npz_arrays(side, facts.channels, len(facts.class_names))
    path = write_npz(root / (f"{name}.npz" if side == 28 else f"{name}_{side}.npz"), arrays)
    changed = replace(facts, md5=(md5_of(path),) * 4)
    monkeypatch.setitem(published.MEDMNIST, name, changed)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def test_pneumonia_is_a_framed_gray_image_of_two_classes(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    publish(monkeypatch, root, "pneumoniamnist")
    spec = load(data_config("pneumoniamnist")).spec
    assert (spec.shape, spec.task) == ((1, 32, 32), Classification(2))


def test_the_papers_constants_are_used_in_units_of_pixels(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    publish(monkeypatch, root, "pneumoniamnist")
    normalisation = load(data_config("pneumoniamnist")).normalisation
    assert normalisation.mean == pytest.approx((0.5404 * 255,))
    assert normalisation.std == pytest.approx((0.2824 * 255,))


def test_a_set_without_constants_is_normalised_by_its_training_pixels(
    monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    publish(monkeypatch, root, "breastmnist")
    expected = npz_arrays(28, 1, 2)["train_images"].mean()
    assert load(data_config("breastmnist")).normalisation.mean == pytest.approx((expected,))


def test_retina_is_a_regression_of_levels_in_0_to_1(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    publish(monkeypatch, root, "retinamnist")
    dataset = load(data_config("retinamnist"))
    assert dataset.spec.task == Regression(0.0, 1.0)
    assert dataset.train.targets.dtype == np.float32
    np.testing.assert_array_equal(np.unique(dataset.train.targets), [0, 0.25, 0.5, 0.75, 1])


def test_larger_images_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    publish(monkeypatch, root, "pneumoniamnist", side=64)
    assert load(data_config("pneumoniamnist", size=64)).spec.shape == (1, 64, 64)


def test_classes_keep_their_names(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    publish(monkeypatch, root, "pneumoniamnist")
    assert load(data_config("pneumoniamnist")).class_names == ("normal", "pneumonia")


def rows(split: Split) -> set[bytes]:
    return {image.tobytes() for image in split.inputs[:]}


@pytest.mark.parametrize("name", ["pneumoniamnist", "retinamnist"])
def test_a_validation_fraction_comes_from_the_official_training_split(
    monkeypatch: pytest.MonkeyPatch, root: Path, name: str
) -> None:
    publish(monkeypatch, root, name)
    official, drawn = load(data_config(name)), load(data_config(name, val_fraction=0.4))
    assert rows(drawn.train) | rows(drawn.val) == rows(official.train)
    assert not rows(drawn.train) & rows(drawn.val)
    assert rows(drawn.test) == rows(official.test)
    shares = [np.mean([target == value for target in drawn.val.targets]) for value in np.unique(official.train.targets)]
    wanted = [np.mean(official.train.targets == value) for value in np.unique(official.train.targets)]
    np.testing.assert_allclose(shares, wanted, atol=1 / len(drawn.val))


def test_the_split_seed_draws_the_validation_fraction(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    publish(monkeypatch, root, "pneumoniamnist")
    drawn = [
        load(data_config("pneumoniamnist", val_fraction=0.4, split_seed=seed), run)
        for seed, run in ((0, 0), (0, 1), (1, 0))
    ]
    assert rows(drawn[0].val) == rows(drawn[1].val) != rows(drawn[2].val)


def test_a_validation_fraction_is_normalised_by_its_training_pixels(
    monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    publish(monkeypatch, root, "breastmnist")
    drawn = load(data_config("breastmnist", val_fraction=0.4))
    expected = drawn.train.inputs[:][:, :, 2:-2, 2:-2].mean()
    assert drawn.normalisation.mean == pytest.approx((expected,))


def test_another_validation_fraction_is_other_data(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    publish(monkeypatch, root, "pneumoniamnist")
    config = data_config("pneumoniamnist", val_fraction=0.4)
    binding = Binding.of(load(config), config)
    assert len(load_bound(config, 0, binding).val) == binding.description.samples["val"]
    with pytest.raises(DataError, match="must hold the data that the run was trained on"):
        load_bound(data_config("pneumoniamnist"), 0, binding)


@pytest.mark.parametrize("fraction", [0, 1, -0.1])
def test_a_validation_fraction_is_between_0_and_1(fraction: float) -> None:
    with pytest.raises(ConfigError, match=r"data\.val_fraction.*(greater|less) than"):
        resolve({"data": {"name": "pneumoniamnist", "val_fraction": fraction}})


def test_a_validation_fraction_leaves_some_samples(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    publish(monkeypatch, root, "pneumoniamnist")
    with pytest.raises(ConfigError, match=r"must leave samples for training and validation, got 0\.001 of"):
        load(data_config("pneumoniamnist", val_fraction=0.001))


def test_a_set_without_an_official_validation_split_refuses_a_fraction() -> None:
    with pytest.raises(ConfigError, match=r"data\.val_fraction has no effect on digits, got 0\.1: remove it"):
        load(data_config("digits", val_fraction=0.1))


def test_without_a_fraction_the_setting_is_not_written() -> None:
    assert "val_fraction" not in to_yaml(resolve({"data": "pneumoniamnist"}))


def test_another_file_under_a_published_name_is_refused(root: Path) -> None:
    root.mkdir()
    write_npz(root / "pneumoniamnist.npz", npz_arrays(28))
    with pytest.raises(DataError, match=r"must be the published file \(MD5 28209eda"):
        load(data_config("pneumoniamnist"))


def test_a_missing_file_says_how_to_get_it(root: Path) -> None:
    with pytest.raises(DataError, match=r"bloodmnist\.npz.*run `sae data fetch bloodmnist`.*--data-root"):
        load(data_config("bloodmnist"))


@pytest.mark.parametrize("name", MEDMNIST)
def test_every_set_has_four_checksums(name: str) -> None:
    assert [len(md5) for md5 in MEDMNIST[name].md5] == [32] * 4


def test_no_checksum_is_there_twice() -> None:
    sums = [md5 for facts in MEDMNIST.values() for md5 in facts.md5]
    assert len(set(sums)) == len(sums)


def test_sets_whose_classes_have_sides_are_not_flipped() -> None:
    sided = {name for name, facts in MEDMNIST.items() if any("left" in title for title in facts.class_names)}
    assert sided == {name for name, facts in MEDMNIST.items() if not facts.flip}
