"""Targets of a table: ordered classes, counts, several values, several labels."""

import math
from pathlib import Path

import numpy as np
import pytest

from sae.config.run import DataConfig
from sae.core.errors import ConfigError, DataError
from sae.core.task import Counts, MultiLabel, Ordinal, Regression
from sae.data.binding import Binding, load_bound
from sae.data.catalogue import load
from sae.data.targets import infer_task
from tests.data.samples import data_config, write_csv

GRADES = ("low", "mid", "high")


def rows(number: int = 60) -> list[dict[str, object]]:
    return [
        {
            "x": index * 0.37 % 1,
            "grade": GRADES[index % 3],
            "level": index % 3 + 1,
            "visits": index % 7,
            "ill": index % 2,
            "tall": ["no", "Yes"][index // 2 % 2],
            "height": 150 + index * 1.7 % 40,
            "weight": 50 + index * 2.3 % 30,
        }
        for index in range(number)
    ]


def config(path: Path, target: object, task: str, **more: object) -> DataConfig:
    names = [target] if isinstance(target, str) else list(target)  # type: ignore[call-overload]
    ignored = [name for name in rows(1)[0] if name not in ("x", *names)]
    return data_config(write_csv(path / "t.csv", rows()), task=task, target=target, ignore=ignored, **more)


def test_grades_in_numbers_are_in_their_order(tmp_path: Path) -> None:
    dataset = load(config(tmp_path, "level", "ordinal"))
    assert (dataset.spec.task, dataset.class_names) == (Ordinal(3), ("1", "2", "3"))


def test_grades_in_texts_are_in_the_given_order(tmp_path: Path) -> None:
    dataset = load(config(tmp_path, "grade", "ordinal", order=GRADES))
    assert (dataset.spec.task, dataset.class_names) == (Ordinal(3), GRADES)


@pytest.mark.parametrize("order", [(), ("low", "mid"), ("low", "mid", "top")])
def test_an_order_must_name_all_grades(tmp_path: Path, order: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"data\.order must list the classes of column 'grade' .* --order"):
        load(config(tmp_path, "grade", "ordinal", order=order))


def test_counts_are_learnt_in_units_of_their_mean(tmp_path: Path) -> None:
    dataset = load(config(tmp_path, "visits", "counts"))
    assert isinstance(dataset.spec.task, Counts)
    assert dataset.spec.task.std == pytest.approx(dataset.train.targets.mean())


def test_values_that_are_no_counts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"counts must be whole numbers from 0, got 1.* use --task regression"):
        load(config(tmp_path, "height", "counts"))


@pytest.mark.parametrize(("targets", "task"), [(("visits", "level"), "counts"), (("level", "ill"), "ordinal")])
def test_a_task_of_one_target_is_refused_for_several(tmp_path: Path, targets: tuple[str, ...], task: str) -> None:
    with pytest.raises(ConfigError, match=f"the task {task} is for one target, got '{targets[0]}', '{targets[1]}'"):
        load(config(tmp_path, targets, task))


def test_an_order_is_refused_where_classes_have_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="got task classification: add --task ordinal"):
        load(config(tmp_path, "grade", "classification", order=GRADES))


def test_several_values_are_standardised_each_by_its_own(tmp_path: Path) -> None:
    dataset = load(config(tmp_path, ("height", "weight"), "regression"))
    task, values = dataset.spec.task, dataset.train.targets
    assert isinstance(task, Regression)
    assert task.mean == pytest.approx(tuple(values.mean(axis=0)))
    assert task.std == pytest.approx(tuple(values.std(axis=0)))
    assert dataset.target_names == ("height", "weight")


def test_labels_may_be_numbers_or_yes_and_no(tmp_path: Path) -> None:
    dataset = load(config(tmp_path, ("ill", "tall"), "classification"))
    assert dataset.spec.task == MultiLabel(num_labels=2)
    assert sorted({tuple(row) for row in dataset.train.targets.tolist()}) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_label_must_hold_or_not(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must be a label, 0 or 1, or yes or no, got 2\.0 in row 3, column 'visits'"):
        load(config(tmp_path, ("ill", "visits"), "classification"))


@pytest.mark.parametrize(
    ("targets", "task"), [(("ill", "tall"), "classification"), (("height", "weight"), "regression")]
)
def test_the_task_of_several_targets_is_told_by_their_values(
    tmp_path: Path, targets: tuple[str, ...], task: str
) -> None:
    assert infer_task(write_csv(tmp_path / "t.csv", rows()), targets)[0] == task


@pytest.mark.parametrize(
    ("target", "task"),
    [("visits", "counts"), (("height", "weight"), "regression"), (("ill", "tall"), "classification")],
)
def test_a_run_finds_its_targets_again(tmp_path: Path, target: object, task: str) -> None:
    given = config(tmp_path, target, task)
    dataset = load(given)
    binding = Binding.of(dataset, given)
    description = type(binding.description).model_validate_json(binding.description.model_dump_json())
    again = load_bound(given, 0, Binding(description, binding.hashes))
    assert again.spec == dataset.spec
    np.testing.assert_array_equal(again.test.targets, dataset.test.targets)


def test_a_sample_without_one_of_its_targets_is_refused(tmp_path: Path) -> None:
    table = rows()
    table[4]["weight"] = math.nan
    path = write_csv(tmp_path / "t.csv", table)
    with pytest.raises(DataError, match="missing in row 5, column 'weight'"):
        load(data_config(path, task="regression", target=("height", "weight")))
