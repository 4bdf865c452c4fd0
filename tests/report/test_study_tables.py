from dataclasses import replace
from pathlib import Path

from sae.analysis.selection import select
from sae.analysis.trials import Influence
from sae.report.tables import front_table, influence_table, trials_table
from tests.report.test_result_tables import TASK, column, is_whole, shown
from tests.studies import StudyBuilder, point, small_study


def test_influence_is_marked_with_care_for_the_number_of_tests() -> None:
    table = influence_table(
        [
            Influence("sae", "T start", "nll", "rho", value=0.6, p=0.02, trials=20),
            Influence("sae", "T end", "nll", "rho", value=None, p=None, trials=20),
            Influence("sae", "N", "nll", "F", value=30.0, p=0.001, trials=20),
            Influence("sae", "K", "nll", "F", value=1.0, p=0.5, trials=20),
        ]
    )
    assert is_whole(table)
    assert shown(table, "NLL p") == ["0.0200", "–", "0.0010", "0.5000"]
    assert [cell.strong for cell in column(table, "NLL p")] == [False, False, True, False]  # 0.05 / 3 is 0.0167
    assert "0.05 / 3" in table.caption
    assert table.caption.startswith("Over 20 trials. Bold: p < 0.05 / 3")
    assert "–: the setting did not vary" in table.caption
    assert "0.0000" not in table.caption
    assert is_whole(influence_table([]))


def test_all_trials_are_listed_whatever_became_of_them(tmp_path: Path) -> None:
    runs = small_study(tmp_path / "s").runs()
    table = trials_table(runs, ["f1", "nll"], TASK)
    assert is_whole(table)
    assert len(table.rows) == 6
    assert shown(table, "State")[:3] == ["finished", "failed", "finished"]
    assert shown(table, "NLL") == ["0.300", "–", "0.200", "–", "–", "0.600"]
    assert [cell.strong for cell in column(table, "NLL")] == [False, False, True, False, False, False]
    assert shown(table, "Seconds") == ["60", "60", "60", "60", "–", "60"]


def test_trials_show_their_learning_rate_where_they_do_not_share_it(tmp_path: Path) -> None:
    runs = [run for run in small_study(tmp_path / "s").runs() if run.config is not None]
    assert not any("lr=" in text for text in shown(trials_table(runs, ["nll"], TASK), "Settings"))
    first = runs[0]
    assert first.config is not None
    train = first.config.train.model_copy(update={"lr": 0.007})
    other = replace(first, config=first.config.model_copy(update={"train": train}))
    settings = shown(trials_table([other, *runs[1:]], ["nll"], TASK), "Settings")
    assert settings[0].endswith(" lr=0.007")
    assert all(text.endswith(f" lr={first.config.train.lr:g}") for text in settings[1:])


def test_the_front_is_listed_by_its_first_objective_with_the_pick_and_the_best_marked(tmp_path: Path) -> None:
    table = front_table(select(small_study(tmp_path / "s").record), TASK)
    assert shown(table, "Trial") == ["sae/2", "sae/0, the pick", "sae/0", "standard/0"]
    assert shown(table, "K′") == ["3", "2", "1", "–"]
    assert [cell.value for cell in column(table, "NLL")] == [0.2, 0.3, 0.5, 0.6]
    assert [cell.value for cell in column(table, "MFLOPs")] == [0.004, 0.002, 0.001, 0.0009]
    assert [cell.strong for cell in column(table, "NLL")] == [True, False, False, False]
    assert [cell.strong for cell in column(table, "MFLOPs")] == [False, False, False, True]


def test_nearly_equal_candidates_are_one_row_of_the_front_that_is_linked_as_the_one_it_shows(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    for values in (point(0.3, 0.10, 2000), point(0.301, 0.099, 1999), point(0.6, 0.2, 900)):
        study.finish({"name": "standard"}, [values])
    table = front_table(select(study.record), TASK)
    assert shown(table, "Alike") == ["1", "0"]
    assert table.keys == tuple(name.removesuffix(", the pick") for name in shown(table, "Trial"))
    assert len(front_table(select(study.record), TASK, tolerance=0).keys) == 3
