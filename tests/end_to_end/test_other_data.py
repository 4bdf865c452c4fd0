"""A run is evaluated, exported and resumed on the data it was trained on, wherever they are, or says that it is not."""

import csv
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sae.cli import app
from sae.records.run import RunRecord

pytestmark = pytest.mark.long

FAST = ["--backbone", "fc", "--depth", "2", "--epochs", "2", "--set", "train.batch_size=16"]


def sae(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def rows(count: int = 80) -> list[list[str]]:
    """Rows with numbers, texts and missing values; the class follows the first number."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 2))[:count]
    colours = rng.choice(["red", "green", "blue", ""], 200)[:count]
    return [
        [f"{a:.4f}", "" if index % 11 == 0 else f"{b:.4f}", colour, "yes" if a > 0 else "no"]
        for index, ((a, b), colour) in enumerate(zip(values, colours, strict=True))
    ]


def write(path: Path, content: list[list[str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["a", "b", "colour", "label"], *content])
    return path


def train(folder: Path, data: Path, *more: str) -> tuple[int, str, str]:
    asked: list[str | Path] = ["--data", data, "--task", "classification", "--target", "label", *FAST, *more]
    return sae("train", *asked, "--out", folder / "run")


def metrics_of(*arguments: str | Path) -> dict[str, float]:
    code, out, error = sae("evaluate", *arguments, "--json")
    assert code == 0, error
    found: dict[str, float] = json.loads(out)["metrics"]
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bound")
    code, _, error = train(folder, write(folder / "p.csv", rows()))
    assert code == 0, error
    return folder


@pytest.fixture
def place(trained: Path, tmp_path: Path) -> Path:
    """A copy of the run without its data, as on another machine."""
    shutil.copytree(trained / "run", tmp_path / "run")
    return tmp_path


def shuffled() -> list[list[str]]:
    content = rows()
    random.Random(1).shuffle(content)
    return content


def test_shuffled_rows_are_split_as_before(trained: Path, place: Path) -> None:
    here = write(place / "elsewhere.csv", shuffled())
    assert metrics_of(place / "run", "--data", here) == metrics_of(trained / "run")


def test_a_run_whose_data_moved_is_timed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    bench = ("bench", place / "run", "--batch", "2", "--repeats", "1", "--sessions", "1")
    here = write(place / "elsewhere.csv", shuffled())
    code, out, error = sae(*bench, "--data", here)
    assert code == 0, error
    assert "batches of 2" in out


def test_a_column_name_with_a_comma_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["height, cm", "b", "colour", "label"], *rows()])
    code, _, error = train(tmp_path, path, "--ignore", '"height, cm", b')
    assert code == 0, error
    config = RunRecord.open(tmp_path / "run").read_config()
    assert config.data.ignore == ("height, cm", "b")


def test_a_changed_row_is_refused(place: Path) -> None:
    content = rows()
    content[3][0] = "9.0"
    here = write(place / "p.csv", content)
    code, _, error = sae("evaluate", place / "run", "--data", here)
    assert code == 2
    assert "must hold the data that the run was trained on, but of its 80 samples 1 are new or changed" in error
    assert "--allow-other-data" in error


def test_other_data_are_recorded_and_no_training_sample_is_tested(trained: Path, place: Path) -> None:
    content = shuffled()[:70]
    content[0] = ["9.0", "1.0", "pink", "yes"]
    here = write(place / "p.csv", content)
    code, out, error = sae("evaluate", place / "run", "--data", here, "--allow-other-data", "--json")
    assert code == 0, error
    assert json.loads(out)["other_data"] is True
    assert "warning: " in error
    assert "other data" in error
    code, out, error = sae(
        "export", place / "run", "--data", here, "--allow-other-data", "--out", place / "ship" / "m.onnx", "--json"
    )
    assert code == 0, error
    assert json.loads(out)["run"]["other_data"] is True


def test_known_samples_keep_their_split_in_other_data(trained: Path, place: Path) -> None:
    from sae.data.binding import Binding, Whereabouts, hash_samples, load_bound
    from sae.data.dataset import SPLITS

    record = RunRecord.open(trained / "run")
    config, binding = record.read_config(), Binding.read(record)
    assert binding is not None
    assert binding.hashes is not None
    here = write(place / "p.csv", shuffled()[:70])
    with pytest.warns(UserWarning, match="other data"):
        dataset = load_bound(config.data, config.seed, binding, Whereabouts(here, allow_other=True))
    for name in SPLITS:
        assert np.isin(hash_samples(dataset.split(name)), binding.hashes[name]).all()


def test_a_missing_file_is_found_by_data_and_by_hint(
    trained: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = place / "work"
    work.mkdir()
    write(work / "p.csv", rows())
    monkeypatch.chdir(work)
    code, _, error = train(place / "second", Path("p.csv"))
    assert code == 0, error
    monkeypatch.chdir(place)  # the relative path leads nowhere from here
    assert metrics_of(place / "second" / "run") == metrics_of(trained / "run")
    (work / "p.csv").rename(place / "moved.csv")
    assert sae("evaluate", place / "second" / "run")[0] == 2
    assert metrics_of(place / "second" / "run", "--data", "moved.csv") == metrics_of(trained / "run")


def test_a_run_is_not_continued_on_other_data(tmp_path: Path) -> None:
    from sae.data.catalogue import resolve
    from sae.training.run import train as train_run

    data = write(tmp_path / "p.csv", rows())
    config = resolve(
        {"data": {"name": str(data), "task": "classification", "target": "label"}, "train": {"epochs": 4}},
        {"backbone": {"name": "fc", "depth": 2}},
    )
    whole = train_run(config, tmp_path / "whole").read_evaluation()
    train_run(config, tmp_path / "paused", until=2)
    write(data, shuffled())
    assert train_run(config, tmp_path / "paused", until=3).path == tmp_path / "paused"
    write(data, rows(90))
    code, _, error = sae("train", "--config", tmp_path / "paused" / "config.yaml", "--out", tmp_path / "paused")
    assert code == 2
    assert "of its 90 samples 10 are new or changed" in error
    assert "--force" in error
    write(data, rows())
    assert train_run(config, tmp_path / "paused").read_evaluation() == whole


def test_a_finished_run_is_not_returned_for_other_data(trained: Path, place: Path) -> None:
    data = place / "p.csv"
    write(data, rows())
    assert train(place / "new", data)[0] == 0
    write(data, rows(90))
    assert train(place / "new", data)[0] == 2
    assert train(place / "new", data, "--force")[0] == 0


def test_a_run_from_before_is_read_with_a_notice(trained: Path, place: Path) -> None:
    for name in (RunRecord.DATA, RunRecord.SPLIT):
        (place / "run" / name).unlink()
    code, _, error = sae("evaluate", place / "run")
    assert code == 0
    assert error.count("was made before runs recorded their data") == 1


def test_a_split_of_another_run_is_damage(place: Path) -> None:
    from safetensors.numpy import save_file

    save_file({name: np.zeros(3, np.uint64) for name in ("train", "val", "test")}, place / "run" / RunRecord.SPLIT)
    code, _, error = sae("evaluate", place / "run")
    assert code == 2
    assert "does not belong to data.json" in error


def test_a_config_keeps_task_and_target_for_another_file(place: Path) -> None:
    here = write(place / "other.csv", rows(60))
    code, _, error = sae("train", "--config", place / "run" / "config.yaml", "--data", here, "--out", place / "new")
    assert code == 0, error
    assert RunRecord.open(place / "new").read_config().data.target == "label"


def test_images_in_another_order_are_split_as_before(tmp_path: Path) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    images = {(kind, number): rng.integers(0, 256, (8, 8), np.uint8) for kind in "ab" for number in range(20)}

    def save(folder: Path, name: str) -> Path:
        for (kind, number), pixels in images.items():
            (folder / kind).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(folder / kind / name.format(number if "x" not in name else 99 - number))
        return folder

    code, _, error = sae("train", "--data", save(tmp_path / "one", "{}.png"), *FAST, "--out", tmp_path / "run")
    assert code == 0, error
    renamed = save(tmp_path / "two", "x{}.png")
    assert metrics_of(tmp_path / "run", "--data", renamed) == metrics_of(tmp_path / "run")


def test_data_of_the_catalogue_are_moved_by_their_root(tmp_path: Path) -> None:
    assert sae("train", "--data", "digits", *FAST, "--out", tmp_path / "run")[0] == 0
    code, _, error = sae("evaluate", tmp_path / "run", "--data", tmp_path / "x.npz")
    assert code == 2
    assert "--data-root" in error
    assert not (tmp_path / "run" / RunRecord.SPLIT).exists()
