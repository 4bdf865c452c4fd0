import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sae.config.methods import SaeConfig
from sae.data.catalogue import load, resolve, suggestions
from sae.data.defaults import (
    FEWEST_EPOCHS,
    LEARNING_RATE,
    MOST_EPOCHS,
    UPDATES,
    count_folder,
    count_npz,
    count_table,
    suggest_training,
    training_share,
)
from sae.search.run import resolve_search
from tests.data.samples import class_files, data_config, npz_arrays, write_csv, write_folder, write_npz, write_zip


def write_rows(path: Path, count: int) -> Path:
    """A table of a number and one of two classes."""
    return write_csv(path, [{"x": index % 10, "y": "ab"[index % 2]} for index in range(count)])


def updates(num_samples: int) -> int:
    train = suggest_training(num_samples)["train"]
    return int(train["epochs"] * math.ceil(num_samples / train["batch_size"]))


@pytest.mark.parametrize("num_samples", [90, 206, 900, 4999])
def test_a_training_has_enough_updates(num_samples: int) -> None:
    assert updates(num_samples) >= UPDATES


@pytest.mark.parametrize(("num_samples", "epochs"), [(90, 334), (206, 143), (900, 35), (4999, 20)])
def test_two_inputs_have_the_updates_of_two_networks(num_samples: int, epochs: int) -> None:
    for_one = math.ceil(500 / math.ceil(num_samples / 32))  # enough for a standard network, see docs/defaults.md
    assert suggest_training(num_samples)["train"]["epochs"] == epochs >= SaeConfig().inputs * for_one - 1


@pytest.mark.parametrize("num_samples", [1, 30, 206, 900, 4999])
def test_epochs_stay_within_bounds(num_samples: int) -> None:
    assert FEWEST_EPOCHS <= suggest_training(num_samples)["train"]["epochs"] <= MOST_EPOCHS


def test_larger_sets_take_fewer_epochs() -> None:
    epochs = [suggest_training(count)["train"]["epochs"] for count in (50, 200, 1000, 4000)]
    assert epochs == sorted(epochs, reverse=True)


def test_no_size_is_a_cliff() -> None:
    sizes = [round(100 * 1.03**step) for step in range(300)]
    assert {suggest_training(size)["train"]["lr"] for size in sizes} == {LEARNING_RATE}
    for one, other in pairwise(sizes):
        before, after = (suggest_training(size)["train"]["batch_size"] for size in (one, other))
        assert after / before == pytest.approx(1, abs=0.06)
        assert updates(other) / updates(one) == pytest.approx(1, abs=0.06)


def test_shares_of_a_split_follow_the_size(tmp_path: Path) -> None:
    for number, share in ((100, 0.6), (500, 0.6), (1581, 0.7), (5000, 0.8), (50_000, 0.8)):
        assert training_share(number) == pytest.approx(share, abs=1e-4)
    path = write_rows(tmp_path / "t.csv", 2000)
    dataset = load(data_config(path, task="classification", target="y"))
    assert len(dataset.train) == count_table(path) == pytest.approx(2000 * training_share(2000), abs=1)
    assert len(dataset.val) == len(dataset.test)


def test_a_training_stops_early(tmp_path: Path) -> None:
    path = str(write_rows(tmp_path / "t.csv", 100))
    config = resolve({"data": {"name": path, "task": "classification", "target": "y"}})
    assert config.train.patience == math.ceil(config.train.epochs / 4)


@pytest.mark.parametrize("ending", ["", "\n"])
def test_rows_of_a_table_are_counted(tmp_path: Path, ending: str) -> None:
    (tmp_path / "t.csv").write_text("x,y\n" + "\n".join(f"{index},a" for index in range(50)) + ending)
    assert count_table(tmp_path / "t.csv") == 30


def test_the_count_of_a_table_is_that_of_its_training_split(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "t.csv", 100)
    assert count_table(path) == len(load(data_config(path, task="classification", target="y")).train)


def test_rows_of_parquet_are_counted_without_reading_them(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"x": list(range(50))}), tmp_path / "t.parquet")
    assert count_table(tmp_path / "t.parquet") == 30


def test_what_cannot_be_counted_suggests_nothing_more(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"hello")
    np.savez(tmp_path / "t.npz", other=np.zeros(3))
    assert count_table(tmp_path / "t.parquet") is None
    assert count_npz(tmp_path / "t.npz") is None
    assert "train" not in suggestions(str(tmp_path / "t.npz"))


def test_training_images_are_counted(tmp_path: Path) -> None:
    assert count_npz(write_npz(tmp_path / "a.npz", npz_arrays())) == 30
    np.savez(tmp_path / "whole.npz", images=np.zeros((50, 8, 8), np.uint8), labels=np.arange(50) % 2)
    assert count_npz(tmp_path / "whole.npz") == 30
    assert count_folder(write_folder(tmp_path / "a", class_files(10))) == 12
    in_splits = {f"{split}/{name}": image for split in ("train", "test") for name, image in class_files(10).items()}
    assert count_folder(write_zip(tmp_path / "b.zip", in_splits)) == 20


def test_own_settings_go_over_those_that_suit_the_size(tmp_path: Path) -> None:
    path = str(write_rows(tmp_path / "t.csv", 100))
    given = {"data": {"name": path, "task": "classification", "target": "y"}, "train": {"epochs": 3}}
    config = resolve(given)
    assert (config.train.epochs, config.train.lr) == (3, suggest_training(60)["train"]["lr"])
    assert resolve(given, {"train": {"lr": 0.5}}).train.lr == 0.5


@pytest.mark.parametrize("method", ["sae", "standard", "ensemble", "mc_dropout", "batch_ensemble"])
def test_every_method_is_trained_for_as_long(method: str, tmp_path: Path) -> None:
    path = str(write_rows(tmp_path / "t.csv", 100))
    config = resolve({"data": {"name": path, "task": "classification", "target": "y"}, "method": method})
    assert config.train.epochs == suggest_training(60)["train"]["epochs"]


def test_a_search_trains_as_long_as_a_run(tmp_path: Path) -> None:
    data = {"data": {"name": str(write_rows(tmp_path / "t.csv", 100)), "task": "classification", "target": "y"}}
    plan = resolve_search([data, {"search": {"methods": ["sae", "standard"]}}])
    wanted = suggest_training(60)["train"]
    for space in plan.study.spaces.values():
        assert {key: space["train"][key] for key in wanted} == wanted


@pytest.mark.parametrize("name", ["digits", "diabetes", "pneumoniamnist", "retinamnist", "tinyimagenet"])
def test_sets_of_the_catalogue_keep_their_settings(name: str) -> None:
    config = resolve({"data": name})
    assert config.train.epochs == {"digits": 30, "diabetes": 30, "tinyimagenet": 100}.get(name, 50)
