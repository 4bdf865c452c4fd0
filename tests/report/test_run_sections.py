from pathlib import Path

import pytest

from sae.analysis.results import run_results
from sae.core.table import Table
from sae.report.content import Section
from sae.report.run_sections import run_sections
from tests.builders import run_config
from tests.results import write_run


def sections(folder: Path, *data: dict[str, object]) -> tuple[Section, ...]:
    """Of two runs on each of some data; the second has the better F1."""
    runs = [
        write_run(
            folder / f"{index}-{seed}", run_config(data=one, seed=0, train={"epochs": 1 + seed}), [{"f1": f1}] * 2
        )
        for index, one in enumerate(data)
        for seed, f1 in enumerate((0.1 * index + 0.1, 0.1 * index + 0.2))
    ]
    return run_sections(run_results(runs))


def table(one: Section) -> Table:
    return next(part for part in one.parts if isinstance(part, Table))


def test_each_data_set_has_a_best_of_its_own(tmp_path: Path) -> None:
    found = sections(tmp_path, {"name": "digits"}, {"name": "bloodmnist"})
    assert [one.title for one in found] == [
        "The runs on digits, classification",
        "The runs on bloodmnist, classification",
    ]
    for one in found:
        column = [head.title for head in table(one).columns].index("F1")
        assert [row[column].strong for row in table(one).rows] == [False, True]


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"target": "b"}, "classification of b"),
        ({"size": 64}, "classification, 64 pixels"),
        ({"split_seed": 3}, "classification, split 3"),
        ({"task": "regression"}, "regression"),
    ],
)
def test_other_targets_pictures_and_splits_are_other_data(other: dict[str, object], told: str, tmp_path: Path) -> None:
    found = sections(tmp_path, {"name": "own/a.csv"}, {"name": "own/a.csv", **other})
    assert found[1].title == f"The runs on own/a.csv, {told}"
    names = [one.name for one in found] + [table(one).name for one in found]
    assert len(set(names)) == 4
    assert not any(character in "".join(names) for character in "/. ,")


def test_how_training_images_are_varied_is_no_other_data(tmp_path: Path) -> None:
    (one,) = sections(tmp_path, {"name": "digits"}, {"name": "digits", "flip": True})
    assert (one.name, table(one).name, table(one).title) == ("the-runs", "runs", "The runs")
    assert len(table(one).rows) == 4
