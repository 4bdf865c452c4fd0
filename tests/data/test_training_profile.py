"""The profile of training data: what it tells, what it leaves out, and which new samples it calls unusual."""

import json
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sae.core.errors import DataWarning
from sae.data.binding import Binding, DataDescription
from sae.data.catalogue import load
from sae.data.dataset import Dataset
from sae.data.profiling import MOST_ROWS, hash_rows, profile_data
from sae.data.training_profile import SHARES, DataProfile, Range, shown
from tests.data.samples import class_files, data_config, npz_arrays, signal_arrays, write_csv, write_folder, write_npz

RNG = np.random.default_rng(0)
ROWS = 200


def table(folder: Path, target: str = "y", **columns: Any) -> Dataset:
    """A table with a harmless column of numbers, in which a class is a text."""
    given = {"x": RNG.normal(50, 10, ROWS), "y": np.array(["a", "b"])[np.arange(ROWS) % 2], **columns}
    rows = [{name: values[row] for name, values in given.items()} for row in range(ROWS)]
    is_class = not np.issubdtype(np.asarray(given[target]).dtype, np.floating)
    task = "classification" if is_class else "regression"
    return load(data_config(write_csv(folder / "t.csv", rows), task=task, target=target))


def findings(dataset: Dataset, path: Path | None = None) -> str:
    return "\n".join(profile_data(dataset, path).findings())


def npz(folder: Path, arrays: Mapping[str, Any], **settings: Any) -> Dataset:
    return load(data_config(write_npz(folder / "x.npz", dict(arrays)), task="classification", **settings))


def test_numbers_have_the_quantiles_of_a_naive_count(tmp_path: Path) -> None:
    holes = [value if row % 5 else "" for row, value in enumerate(np.arange(ROWS) % 37)]
    dataset = table(tmp_path, holes=holes, colour=np.array(["red", "blue", "red"])[np.arange(ROWS) % 3])
    profile = profile_data(dataset)
    found = {column.name: column for column in profile.columns}
    assert profile.rows == profile.looked_at == len(dataset.train)
    values = np.sort(dataset.train.inputs[:][:, 0])
    numbers = found["x"].range
    assert numbers is not None
    assert (numbers.low, numbers.high) == (values[0], values[-1])
    assert numbers.quantiles == tuple(values[round(share * (len(values) - 1))] for share in SHARES)
    assert found["holes"].missing == dataset.train.inputs[:][:, 2].mean()
    assert found["holes"].distinct == len(np.unique(dataset.train.inputs[:][:, 1][dataset.train.inputs[:][:, 2] == 0]))
    assert (found["colour"].holds, found["colour"].distinct, found["colour"].range) == ("categories", 2, None)


def test_harmless_data_have_no_findings(tmp_path: Path) -> None:
    assert findings(table(tmp_path)) == ""
    rng = np.random.default_rng(0)
    pixels = {
        name: rng.integers(0, 256, array.shape, np.uint8) if "images" in name else array
        for name, array in npz_arrays().items()
    }
    assert findings(npz(tmp_path, pixels)) == ""


def test_a_profile_holds_no_text_of_the_data(tmp_path: Path) -> None:
    """But the names of columns and classes, which the manifest has anyway."""
    texts = [f"patient {row % 40}" for row in range(ROWS)]
    profile = profile_data(table(tmp_path, who=texts)).model_dump_json()
    assert "who" in profile
    assert "patient" not in profile


@pytest.mark.parametrize("copy", ["texts", "numbers"])
def test_a_column_that_is_the_target_under_another_name_is_found(tmp_path: Path, copy: str) -> None:
    names = {"texts": np.array(["yes", "no"]), "numbers": np.array([7, 3])}[copy]
    said = findings(table(tmp_path, leak=names[np.arange(ROWS) % 2], other=names[np.arange(ROWS) // 2 % 2]))
    assert said.startswith("'leak' tells the target one to one: leave it out with --ignore leak")


@pytest.mark.parametrize("sign", [1.0, -3.0])
def test_a_column_that_rises_or_falls_with_the_values_of_a_regression_is_found(tmp_path: Path, sign: float) -> None:
    values = RNG.normal(0, 1, ROWS)
    said = findings(table(tmp_path, "price", price=values, leak=sign * values**3, other=RNG.permutation(values)))
    assert said.splitlines()[0].startswith("'leak' tells the target one to one")
    assert "other" not in said


def test_test_rows_that_are_also_training_rows_are_counted(tmp_path: Path) -> None:
    arrays = npz_arrays()
    arrays["test_images"][:3] = arrays["train_images"][:3]
    dataset = npz(tmp_path, arrays)
    train = {image.tobytes() for image in dataset.train.inputs[:]}
    known = sum(image.tobytes() in train for image in dataset.test.inputs[:])
    assert known >= 3
    profile = profile_data(dataset)
    assert profile.known["test"] == known
    assert f"{known} of {len(dataset.test)} test samples have the inputs of a training sample" in findings(dataset)


def test_repeated_and_contradicting_rows_are_counted_as_a_naive_loop_does(tmp_path: Path) -> None:
    dataset = table(tmp_path, x=np.arange(ROWS) % 30, y=np.array(["a", "b"])[RNG.integers(0, 2, ROWS)])
    rows = [(row.tobytes(), label) for row, label in zip(dataset.train.inputs[:], dataset.train.targets, strict=True)]
    labels: dict[bytes, set[int]] = {}
    for row, label in rows:
        labels.setdefault(row, set()).add(int(label))
    profile = profile_data(dataset)
    assert profile.repeated == len(rows) - len(labels)
    assert profile.contradicted == sum(len(labels[row]) > 1 for row, _ in rows)
    assert "have inputs with other targets, too" in findings(dataset)


@pytest.mark.parametrize(
    ("first", "second"),
    [("Yes", "yes"), ("a  b", "a b"), ("café", unicodedata.normalize("NFD", "café"))],
    ids=["case", "spaces", "composition"],
)
def test_classes_with_almost_the_same_name_are_named(tmp_path: Path, first: str, second: str) -> None:
    said = findings(table(tmp_path, y=np.array([first, second])[np.arange(ROWS) % 2]))
    assert "are almost one name, but are learnt as two" in said
    assert repr(second) in said


def test_classes_without_samples_in_a_split_are_named(tmp_path: Path) -> None:
    arrays = npz_arrays()
    arrays["val_labels"][:], arrays["train_labels"][arrays["train_labels"] == 1] = 0, 2
    said = findings(npz(tmp_path, arrays))
    assert "no train sample has class '1', which can never be predicted" in said
    assert "no val sample has class '1', '2', which count in none of its results" in said


@pytest.mark.parametrize("numbers", [(1, 2, 3), (0, 2, 5), (10, 2, 7)])
@pytest.mark.parametrize("kind", ["images", "signals"])
def test_labels_with_gaps_become_classes_of_these_names(tmp_path: Path, numbers: tuple[int, ...], kind: str) -> None:
    """A phantom class would be trained otherwise; tables have always named theirs."""
    plain = npz_arrays() if kind == "images" else signal_arrays()
    numbered = {
        name: np.array(numbers)[array.astype(int)] if "labels" in name else array for name, array in plain.items()
    }
    dataset = npz(tmp_path, numbered, kind=kind)
    assert dataset.class_names == tuple(map(str, sorted(numbers)))
    assert np.array([int(name) for name in dataset.class_names])[dataset.test.targets].tolist() == list(
        numbered["test_labels"].reshape(-1)
    )
    # A run of before had no names: it is read as it was.
    binding = Binding.of(dataset, data_config(tmp_path / "x.npz", task="classification", kind=kind))
    again = load(data_config(tmp_path / "x.npz", task="classification", kind=kind), 0, binding.known)
    assert again.class_names == dataset.class_names
    np.testing.assert_array_equal(again.train.targets, dataset.train.targets)


def test_a_run_from_before_labels_with_gaps_had_names_is_read_as_it_was(tmp_path: Path) -> None:
    arrays = {name: array + 1 if "labels" in name else array for name, array in npz_arrays().items()}
    dataset = npz(tmp_path, arrays)
    description = Binding.of(dataset, data_config(tmp_path / "x.npz", task="classification")).description
    older = Binding(description.model_copy(update={"class_names": None, "profile": None}), None)
    again = load(data_config(tmp_path / "x.npz", task="classification"), 0, older.known)
    assert again.class_names is None
    assert again.spec.task.num_outputs == 4


def test_files_that_are_passed_over_are_counted_by_suffix(tmp_path: Path) -> None:
    files = {**class_files(), **{f"cat/{index}.heic": b"?" for index in range(30)}, "cat/labels.txt": b"x"}
    path = write_folder(tmp_path / "tree", files)
    dataset = load(data_config(path))
    assert profile_data(dataset, path).passed_over == {"heic": 30}
    assert "files of other kinds were passed over: 30 .heic" in findings(dataset, path)


def test_images_of_a_single_colour_are_told(tmp_path: Path) -> None:
    arrays = npz_arrays(side=28)  # these get a frame, which is no value of theirs
    arrays["train_images"][:10] = 7
    dataset = npz(tmp_path, arrays)
    profile = profile_data(dataset)
    assert profile.constant == np.mean([len(np.unique(image)) == 1 for image in arrays["train_images"]])
    assert [(channel.low, channel.high) for channel in profile.channels] == [
        (arrays["train_images"].min(), arrays["train_images"].max())
    ]
    assert "of the training samples have a single value, such as black images" in findings(dataset)


def test_an_outlier_that_flattens_its_column_is_told(tmp_path: Path) -> None:
    values = RNG.normal(50, 10, ROWS)
    is_training = np.isin(values, table(tmp_path, income=values).train.inputs[:][:, 1])
    values[is_training.argmax()] = 1e9
    said = findings(table(tmp_path, income=values))
    assert "'income' goes from " in said
    assert " to 1e+09, but 90 % lie between" in said


def test_dates_of_the_year_9999_are_told(tmp_path: Path) -> None:
    days = [f"2024-01-{1 + row % 28:02}" if row % 3 else "9999-12-31" for row in range(ROWS)]
    said = findings(table(tmp_path, end=days))
    assert "'end' has dates from 2024-01-01 to 9999-12-31: if one of them stands for no date, leave it empty" in said


def test_many_rows_are_looked_at_in_part() -> None:
    from sae.core.task import Classification, DataSpec
    from sae.data.dataset import ColumnEncoding, Normalisation, Split

    number = MOST_ROWS + 5
    inputs = np.arange(number, dtype=np.float64)[:, None]
    split = Split(inputs, np.arange(number) % 2)
    small = Split(inputs[:10], split.targets[:10])
    spec = DataSpec((1,), Classification(2))
    columns = (ColumnEncoding("x", 0.0),)
    profile = profile_data(
        Dataset("many", spec, Normalisation((0.0,), (1.0,)), split, small, small, ("a", "b"), columns=columns)
    )
    assert (profile.rows, profile.looked_at) == (number, MOST_ROWS)
    found = profile.columns[0].range
    assert found is not None
    assert (found.low, found.high) == (0, number - 1)  # of all rows


def test_equal_rows_have_equal_hashes_and_others_do_not() -> None:
    rows = RNG.integers(0, 3, (5000, 6)).astype(np.float64)
    assert len(np.unique(hash_rows(rows))) == len(np.unique(rows, axis=0))
    odd = RNG.integers(0, 2, (3000, 13)).astype(np.uint8)
    assert len(np.unique(hash_rows(odd))) == len(np.unique(odd, axis=0))


@pytest.mark.parametrize(
    ("found", "inside", "outside"),
    [
        (Range(low=0, high=10, quantiles=(0,) * 5), (-44, 54), (-46, 56)),
        (Range(low=3, high=3, quantiles=(3,) * 5), (3,), (3.1, 2.9)),
    ],
    ids=["numbers", "a constant"],
)
def test_far_outside_is_ten_times_the_range(
    found: Range, inside: tuple[float, ...], outside: tuple[float, ...]
) -> None:
    low, high = found.bounds
    assert all(low <= value <= high for value in inside)
    assert not any(low <= value <= high for value in outside)


def test_unusual_rows_are_named_by_their_first_column(tmp_path: Path) -> None:
    with pytest.warns(DataWarning, match="single value"):
        dataset = table(tmp_path, colour=np.array(["red", "blue"])[np.arange(ROWS) // 3 % 2], same=np.full(ROWS, 4))
    profile, rows = profile_data(dataset), np.array(dataset.train.inputs[:4])
    rows[1, 0], rows[2, -1], rows[3, 0], rows[3, -1] = 1e39, 5, -1e9, 0
    assert dataset.columns is not None
    assert profile.unusual(rows, dataset.columns).tolist() == ["", "x", "same", "x"]
    assert profile.told("same") == "'same' outside what training saw (only 4)"
    ends = dataset.train.inputs[:][:, 0]
    assert profile.told("x") == f"'x' outside what training saw ({shown(ends.min())} to {shown(ends.max())})"


def test_signals_far_outside_and_constant_ones_are_unusual(tmp_path: Path) -> None:
    dataset = npz(tmp_path, signal_arrays(), kind="signals")
    profile, signals = profile_data(dataset), np.array(dataset.test.inputs[:3])
    signals[1, 1, 4], signals[2] = 1e12, 0.5
    assert profile.unusual(signals, ()).tolist() == ["", "channel 2", "constant"]
    assert profile.told("channel 2").startswith("'channel 2' outside what training saw (")
    assert profile.told("constant") == "a single value in the whole sample"


def test_constant_images_are_unusual_where_training_had_none(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    plain = npz_arrays()
    noise = {name: rng.integers(0, 256, each.shape, np.uint8) for name, each in plain.items() if "images" in name}
    profile = profile_data(npz(tmp_path, {**plain, **noise}))
    images = np.stack([noise["test_images"][:1], np.zeros((1, 8, 8), np.uint8)])
    assert profile.unusual(images, ()).tolist() == ["", "constant"]
    assert profile.unusual(images[:0], ()).tolist() == []


def test_a_profile_is_kept_with_the_run_and_older_files_have_none(tmp_path: Path) -> None:
    dataset = table(tmp_path)
    description = Binding.of(dataset, data_config(tmp_path / "t.csv", task="classification", target="y")).description
    assert description.profile == profile_data(dataset)
    kept = json.loads(description.model_dump_json())
    assert DataProfile.model_validate(kept["profile"]) == description.profile
    del kept["profile"]
    older = DataDescription.model_validate(kept)
    assert older.profile is None
    assert "profile" not in older.model_dump()


def test_images_that_are_lists_of_files_have_a_profile(tmp_path: Path) -> None:
    for index in range(20):
        Image.fromarray(RNG.integers(0, 256, (8, 8), np.uint8)).save(tmp_path / f"{index}.png")
    rows = [{"file": f"{index}.png", "y": "ab"[index % 2]} for index in range(20)]
    path = write_csv(tmp_path / "t.csv", rows)
    dataset = load(data_config(path, task="classification", target="y"))
    assert len(profile_data(dataset, path).channels) == 1
