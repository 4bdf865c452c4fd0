from pathlib import Path

import numpy as np
import pytest

from sae.core.errors import DataError
from sae.core.task import SampleKind
from sae.data.npz import find_layout, samples_of_split
from tests.data.samples import write_npz


def write(path: Path, *names: str) -> Path:
    return write_npz(path, {name: np.zeros((2, 3)) for name in names})


@pytest.mark.parametrize(
    ("names", "kind", "train"),
    [
        (("train_images", "train_labels"), SampleKind.IMAGES, "train_images"),
        (("train_signals", "train_labels"), SampleKind.SIGNALS, "train_signals"),
        (("x_train", "y_train"), None, "x_train"),
        (("X_train", "Y_train"), None, "X_train"),
    ],
)
def test_a_split_file_is_known_by_its_names(
    tmp_path: Path, names: tuple[str, ...], kind: SampleKind | None, train: str
) -> None:
    layout = find_layout(write(tmp_path / "a.npz", *names))
    assert layout is not None
    assert (layout.pair.kind, layout.samples["train"], layout.labels["train"]) == (kind, train, names[1])


@pytest.mark.parametrize(("samples", "labels"), [("images", "labels"), ("signals", "labels"), ("X", "y")])
def test_a_file_without_splits_has_one_part(tmp_path: Path, samples: str, labels: str) -> None:
    layout = find_layout(write(tmp_path / "a.npz", samples, labels))
    assert layout is not None
    assert (layout.samples, layout.labels) == ({"all": samples}, {"all": labels})
    layout.check_complete()


def test_a_file_of_other_names_has_no_layout(tmp_path: Path) -> None:
    assert find_layout(write(tmp_path / "a.npz", "thing")) is None


def test_splits_come_before_a_whole(tmp_path: Path) -> None:
    layout = find_layout(write(tmp_path / "a.npz", "x_train", "x_test", "x"))
    assert layout is not None
    assert set(layout.samples) == {"train", "test"}


def test_a_file_of_two_kinds_needs_to_be_told_which(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", "train_images", "train_signals")
    with pytest.raises(DataError, match="samples of one kind, got train_images and train_signals"):
        find_layout(path)
    layout = find_layout(path, SampleKind.SIGNALS)
    assert layout is not None
    assert layout.samples == {"train": "train_signals"}


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (("x_train", "y_train"), "x_test, y_test is missing"),
        (("x_train", "y_train", "x_test"), "y_test is missing"),
        (("x_train", "y_train", "x_test", "y_test", "x_val"), "y_val is missing"),
        (("signals",), "labels is missing"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, names: tuple[str, ...], missing: str) -> None:
    layout = find_layout(write(tmp_path / "a.npz", *names))
    assert layout is not None
    with pytest.raises(DataError, match=missing):
        layout.check_complete()


def test_a_split_to_predict_needs_no_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", "val_signals", "test_signals", "test_labels")
    assert samples_of_split(path, "test") == ("test_signals", "test_labels")
    assert samples_of_split(path, "val") == ("val_signals", None)
    with pytest.raises(DataError, match="must hold one of train_images, train_signals, x_train, images, signals, x"):
        samples_of_split(path, "train")
