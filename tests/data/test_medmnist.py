from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sae.core.errors import DataError
from sae.core.task import Classification, Regression
from sae.data import medmnist
from sae.data.catalogue import load
from sae.data.medmnist import MEDMNIST
from tests.data.samples import data_config, md5_of, npz_arrays, write_npz


def publish(monkeypatch: pytest.MonkeyPatch, root: Path, name: str, side: int = 28) -> None:
    """Put a small file under a published name, with its sum in the table."""
    facts = MEDMNIST[name]
    root.mkdir(exist_ok=True)
    arrays = npz_arrays(side, facts.channels, len(facts.class_names))
    path = write_npz(root / (f"{name}.npz" if side == 28 else f"{name}_{side}.npz"), arrays)
    changed = replace(facts, md5=(md5_of(path),) * 4)
    monkeypatch.setitem(medmnist.MEDMNIST, name, changed)


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
