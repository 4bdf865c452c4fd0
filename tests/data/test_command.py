import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from sae.cli import app
from sae.data.catalogue import CATALOGUE, load
from sae.data.locations import PublishedFile
from sae.data.overview import first_of_each_class
from tests.data.samples import (
    class_files,
    data_config,
    md5_of,
    table_rows,
    tiny_files,
    write_csv,
    write_folder,
    write_npz,
    write_zip,
)

SMALL = ["--epochs", "1", "--backbone", "fc", "--depth", "1", "--exits", "1"]


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_list_names_every_set_and_whether_it_is_here() -> None:
    sets = json.loads(run("data", "list", "--json").stdout)
    assert list(sets) == list(CATALOGUE)
    packaged = {
        name for name in sets if any(file.elsewhere for files in CATALOGUE[name].files.values() for file in files)
    }
    assert [name for name, row in sets.items() if row["here"] and name not in packaged] == ["digits", "diabetes"]


def test_list_looks_below_the_data_root(tmp_path: Path) -> None:
    (tmp_path / "bloodmnist.npz").write_bytes(b"")
    assert json.loads(run("data", "list", "--json", "--data-root", tmp_path).stdout)["bloodmnist"]["here"]


def test_list_prints_a_table() -> None:
    assert "PneumoniaMNIST: 4,708/524/624 images" in run("data", "list").stdout


def test_info_counts_the_classes(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz")
    summary = json.loads(run("data", "info", path, "--task", "classification", "--json").stdout)
    assert summary["splits"]["val"] == {"samples": 9, "per_class": [3, 3, 3]}
    assert (summary["shape"], summary["classes"]) == ([1, 8, 8], ["0", "1", "2"])


def test_info_describes_the_targets_of_a_regression(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "a.npz", test_labels=np.array([1.0, 5.0] * 6))
    summary = json.loads(run("data", "info", path, "--task", "regression", "--json").stdout)
    assert summary["splits"]["test"]["targets"] == {"mean": 3.0, "std": 2.0, "min": 1.0, "max": 5.0}


@pytest.mark.parametrize(("name", "word"), [("digits", "1,078"), ("diabetes", "std of targets")])
def test_info_prints_a_table(name: str, word: str) -> None:
    assert word in run("data", "info", name).stdout


def test_info_draws_images_of_each_class(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "a", class_files())
    assert run("data", "info", path, "--picture", tmp_path / "out.png").exit_code == 0
    with Image.open(tmp_path / "out.png") as picture:
        assert picture.width > 2 * 8  # enlarged, side by side


def test_samples_are_as_many_of_each_class(tmp_path: Path) -> None:
    dataset = load(data_config(write_folder(tmp_path / "a", class_files())))
    images, titles = first_of_each_class(dataset, most=4)
    assert titles == ["cat", "cat", "dog", "dog"]
    assert images.shape == (4, *dataset.spec.shape)


def test_corrupt_draws_the_grid(tmp_path: Path) -> None:
    assert run("data", "corrupt", "digits", "--picture", tmp_path / "out.png").exit_code == 0
    with Image.open(tmp_path / "out.png") as picture:
        assert picture.height > 19 * 90  # a row for each corruption


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["digits", "--index", "9999"], "--index must be below 360"), (["diabetes"], "diabetes is a table")],
)
def test_what_cannot_be_corrupted_is_refused(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = run("data", "corrupt", *arguments, "--picture", tmp_path / "out.png")
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_picture_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    result = run("data", "info", "digits", "--picture", tmp_path / "absent" / "out.png")
    assert result.exit_code == 2
    assert "--picture must name an image file that can be written" in result.stderr


def test_fetch_brings_a_file_to_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_npz(tmp_path / "a.npz")
    entry = replace(CATALOGUE["bloodmnist"], files={28: (PublishedFile("b.npz", "", md5_of(path)),)})
    monkeypatch.setitem(CATALOGUE, "bloodmnist", entry)
    assert run("data", "fetch", "bloodmnist", "--url", path, "--data-root", tmp_path / "to").exit_code == 0
    assert (tmp_path / "to" / "b.npz").read_bytes() == path.read_bytes()


def test_fetch_refuses_another_file_than_the_published_one(tmp_path: Path) -> None:
    result = run("data", "fetch", "bloodmnist", "--url", write_npz(tmp_path / "a.npz"), "--data-root", tmp_path / "to")
    assert result.exit_code == 2
    assert "must have MD5 7053d0359d879ad8a5505303e11de1dc" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("data", "info", "bloodmnist"),
        ("data", "info", "no/such/folder"),
        ("data", "info", "digits", "--task", "guessing"),
        ("data", "info", "digits", "--size", "30"),
        ("data", "info", "diabetes", "--picture", "x.png"),
        ("data", "fetch", "digits"),
        ("data", "fetch", "nosuch"),
        ("data", "fetch", "bloodmnist", "--size", "30"),
        ("data", "fetch", "bloodmnist", "--url", "nowhere"),
        ("data", "fetch", "bloodmnist", "--url", "http://127.0.0.1:9/x"),
        ("train", "--data", "bloodmnist", "--out", "x"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def write_own(kind: str, folder: Path) -> list[object]:
    """Data of a kind, and the flags to train on it."""
    if kind == "npz":
        return [write_npz(folder / "a.npz"), "--task", "regression"]
    if kind == "folder":
        return [write_folder(folder / "a", class_files())]
    if kind == "zip":
        return [write_zip(folder / "a.zip", class_files()), "--task", "classification"]
    if kind == "tiny":
        return [write_zip(folder / "tiny.zip", tiny_files())]
    return [write_csv(folder / "a.csv", table_rows()), "--task", "classification", "--target", "kind"]


@pytest.mark.parametrize("kind", ["npz", "folder", "zip", "tiny", "csv"])
def test_train_works_on_data_of_the_users_own(kind: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = run("train", "--data", *write_own(kind, tmp_path), *SMALL, "--out", out, "--json")
    assert result.exit_code == 0, result.stderr
    again = json.loads(run("evaluate", out, "--json").stdout)
    assert again["metrics"] == pytest.approx(json.loads(result.stdout)["metrics"])


def test_where_the_file_was_is_no_part_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        write_npz(tmp_path / folder / "a.npz")
    arguments = ("train", "--data", "a.npz", "--task", "classification", *SMALL, "--out", tmp_path / "run")
    assert run(*arguments, "--data-root", tmp_path / "one").exit_code == 0
    assert run(*arguments, "--data-root", tmp_path / "two").exit_code == 0  # returns what is there
    assert str(tmp_path / "one") not in (tmp_path / "run" / "config.yaml").read_text()


@pytest.mark.filterwarnings("default::sae.core.errors.DataWarning")
def test_a_warning_about_data_is_one_line(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", [{**row, "same": 1} for row in table_rows()])
    result = CliRunner().invoke(app, ["data", "info", str(path), "--task", "regression", "--target", "price"])
    assert result.exit_code == 0, result.output
    assert result.stderr == (
        f"warning: {path} has columns with a single value in the training rows, which teach nothing: 'same'; "
        f"leave them out with --ignore same\n"
    )


def leaky_table(folder: Path) -> Path:
    """A table with more than six faults."""
    rng = np.random.default_rng(0)
    names = ("Yes", "yes", "No")
    rows = [
        {
            "income": 9e9 if index == 3 else rng.normal(),
            **{f"end{number}": "9999-12-31" if index % 4 else "2024-01-02" for number in range(6)},
            "code": "ABC"[index % 3],
            "y": names[index % 3],
        }
        for index in range(300)
    ]
    return write_csv(folder / "leaky.csv", rows)


def test_train_and_info_print_the_worst_about_the_data_in_six_lines(tmp_path: Path) -> None:
    table = leaky_table(tmp_path)
    info = run("data", "info", table, "--target", "y")
    trained = run("train", table, "--target", "y", "--epochs", 1, "--out", tmp_path / "run")
    for said in (info, trained):
        assert said.exit_code == 0, said.stderr
        lines = [line for line in said.stderr.splitlines() if "leaky.csv: " in line]
        assert len(lines) == 6
        assert "'code' tells the target one to one" in lines[0]
        assert "'Yes' and 'yes' are almost one name" in lines[1]
        assert f"more: sae data info {table} --json" in said.stderr
    assert "the 180 training samples" in info.stdout


def test_info_prints_the_profile_as_json(tmp_path: Path) -> None:
    table = leaky_table(tmp_path)
    found = json.loads(run("data", "info", table, "--target", "y", "--json").stdout)
    assert found["profile"]["copies"] == ["code"]
    assert len(found["findings"]) > 6
