"""`sae train DATA` needs no more than the data and the target."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sae.cli.training import default_folder
from sae.config.run import parse_run
from sae.data.dataset import Dataset
from sae.records.baselines import Baselines
from sae.records.run import RunRecord
from sae.training.baselines import measure_baselines
from tests.cli.test_cli import sae

QUICK = ("--method", "standard", "--depth", "1", "--epochs", "1")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=60),
            "left": rng.choice(["Yes", "No"], 60),
            "stars": rng.integers(1, 6, 60),
            "price": rng.normal(size=60),
        }
    )
    frame.to_csv(tmp_path / "shop.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return Path("shop.csv")


@pytest.mark.parametrize(
    ("target", "said", "task"),
    [
        ("left", "task: classification, because column 'left' holds texts", "classification"),
        ("stars", "task: classification, because column 'stars' holds 5 different whole numbers", "classification"),
        ("price", "task: regression, because column 'price' holds numbers", "regression"),
    ],
)
def test_the_task_is_told_from_the_target_and_said(table: Path, target: str, said: str, task: str) -> None:
    code, _, error = sae("train", table, "--target", target, *QUICK)
    assert code == 0, error
    assert said in error
    assert RunRecord(Path("runs/shop")).read_config().data.task == task


def test_a_table_without_a_target_asks_for_it(table: Path) -> None:
    code, _, error = sae("train", table, *QUICK)
    assert code == 2
    assert "data.target must name the column of shop.csv to predict: --target COLUMN, one of x, left" in error


def test_an_order_of_classes_tells_the_task(table: Path) -> None:
    code, _, error = sae("train", table, "--target", "left", "--order", "No,Yes", *QUICK)
    assert code == 0, error
    assert RunRecord(Path("runs/shop")).read_config().data.task == "ordinal"


def test_a_task_in_a_settings_file_is_kept(table: Path) -> None:
    Path("c.yaml").write_text("data: {name: shop.csv, target: stars, task: regression}")
    _, _, error = sae("train", "--config", "c.yaml", *QUICK)
    assert "task:" not in error
    assert RunRecord(Path("runs/shop")).read_config().data.task == "regression"


@pytest.mark.parametrize("name", [".", "..", "photos/.."])
def test_the_default_folder_is_below_runs_whatever_the_data_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    config = parse_run({"data": {"name": name}, "backbone": {"name": "fc"}})
    assert default_folder(config).parent == Path("runs")
    assert ".." not in default_folder(config).parts


def test_a_training_whose_last_epoch_was_the_best_says_so(table: Path) -> None:
    _, _, error = sae("train", "digits", "--method", "standard", "--depth", "1", "--epochs", "3")
    assert "still improving: of 3 epochs the best on validation was number 3, so more may help: --epochs 6" in error
    _, out, error = sae("train", "diabetes", "--epochs", "40", "--set", "train.patience=3", "--json")
    assert "still improving" not in error
    assert json.loads(out)["still_improving"] is False


def test_a_task_that_is_given_is_kept_without_a_word(table: Path) -> None:
    _, _, error = sae("train", table, "--target", "stars", "--task", "regression", *QUICK)
    assert "task:" not in error
    assert RunRecord(Path("runs/shop")).read_config().data.task == "regression"


def test_the_same_command_has_the_same_folder_and_another_one_has_its_own(table: Path) -> None:
    ask = ("train", table, "--target", "left", *QUICK)
    assert "the run is in runs/shop\n" in sae(*ask)[2]
    assert "the run is in runs/shop\n" in sae(*ask)[2]
    assert "the run is in runs/shop-2\n" in sae(*ask, "--seed", "1")[2]
    mine = Path("runs/shop-3/mine.txt")
    mine.parent.mkdir()
    mine.write_text("mine")
    assert "the run is in runs/shop-4\n" in sae(*ask, "--seed", "2")[2]
    assert mine.read_text() == "mine"


def test_a_name_of_the_catalogue_is_taken_too(table: Path) -> None:
    code, out, _ = sae("train", "digits", *QUICK, "--json")
    assert code == 0
    assert json.loads(out)["run"] == "runs/digits"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("shop.csv", "--data", "shop.csv"), "the data are given twice, as 'shop.csv' and as --data 'shop.csv'"),
        (("shop.csv", "--target", "prise"), "data.target must be a column of shop.csv, one of x, left, stars, price"),
        (("gone.csv", "--target", "price"), "gone.csv"),
        ((), "data.name must be set: give --data NAME"),
        (("digits", "--lr", "0.1"), "No such option: --lr, but --set train.lr=…"),
        (("digits", "--learning-rate", "0.1"), "No such option: --learning-rate, but --set train.lr=…"),
        (("digits", "--epochs"), "--epochs"),
        (("digits", "--raet", "0.1"), "No such option: --raet (Possible options: "),
        (("digits", "--set", "train.learning_rate=1"), "train.learning_rate, did you mean train.lr?"),
        (("digits", "--set", "train.device=qpu"), "torch can use here (cpu"),
        (("digits", "--set", "train.device=qpu"), "choose one of these, or install a torch for yours"),
    ],
)
def test_what_is_wrong_is_said_before_a_run_exists(table: Path, asked: tuple[str, ...], message: str) -> None:
    code, _, error = sae("train", *asked)
    assert code == 2
    assert message in error
    assert "Traceback" not in error
    assert not Path("runs").exists()


def test_the_columns_of_a_table_are_described_before_a_target_is_named(table: Path) -> None:
    text = table.read_text().splitlines()
    lines = [f"{line},{'?' if row == 3 else row % 7},k{row}" for row, line in enumerate(text[1:])]
    table.write_text("\n".join([f"{text[0]},visits,id", *lines]))
    code, out, error = sae("data", "info", table, "--ignore", "price", "--json")
    assert code == 0, error
    described = {item["name"]: item for item in json.loads(out)["columns"]}
    assert described["visits"] == {
        "name": "visits",
        "holds": "numbers",
        "missing": 1,
        "distinct": 7,
        "example": "0",
        "use": "a number, and whether it is missing (?)",
    }
    assert {name: item["use"] for name, item in described.items() if name != "visits"} == {
        "x": "a number",
        "left": "a category each",
        "stars": "a number",
        "price": "ignored",
        "id": "looks like an identifier: ignore it",
    }
    assert "name the column to predict with --target" in error
    _, out, _ = sae("data", "info", table, "--target", "stars", "--ignore", "id")
    assert "the target" in out
    assert "classification, samples of shape" in out


def test_a_wrong_name_of_a_column_is_refused_by_the_description(table: Path) -> None:
    code, _, error = sae("data", "info", table, "--ignore", "prise")
    assert code == 2
    assert "must be a column of shop.csv, one of x, left, stars, price; got 'prise', did you mean price?" in error


def test_no_results_are_claimed_for_a_folder_that_another_process_started_over(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_over(dataset: Dataset) -> Baselines:
        config = RunRecord(Path("runs/shop")).read_config()
        RunRecord.create(Path("runs/shop"), config.model_copy(update={"seed": 1}), force=True)
        return measure_baselines(dataset)

    monkeypatch.setattr("sae.training.baselines.measure_baselines", start_over)
    code, printed, error = sae("train", table, "--target", "left", *QUICK)
    assert code == 2
    assert not printed
    assert "runs/shop holds a run with another config (seed 1 → 0)" in error
