"""Changes to a study folder between two commands, and settings that are easy to misread."""

import json
import shutil
from pathlib import Path

import pytest

from sae.config.settings import read_yaml
from sae.core.task import Classification, DataSpec
from sae.records.study import StudyRecord
from sae.search.driver import Budget, Driver
from sae.search.executors.local import LocalExecutor
from sae.search.method_study import open_studies
from sae.search.progress import ForecastLine
from sae.search.space import build_space
from tests.data.samples import table_rows, write_csv
from tests.search.studies import DIGITS, InlineExecutor, search

pytestmark = pytest.mark.long

TWO = ("--sampler", "random", "--trials", "2")


@pytest.fixture
def study(tmp_path: Path, inline: InlineExecutor) -> Path:
    assert search(tmp_path / "study", *TWO)[0] == 0
    inline.done.clear()
    return tmp_path / "study"


@pytest.mark.parametrize("name", ["trials", "confirm", "optuna.db"])
def test_a_folder_that_holds_something_of_that_name_is_left_alone(
    name: str, tmp_path: Path, inline: InlineExecutor
) -> None:
    (tmp_path / "mine" / name).mkdir(parents=True)
    (tmp_path / "mine" / name / "patients.txt").write_text("mine")
    code, _, error = search(tmp_path / "mine", *TWO)
    assert code == 2
    assert f"holds {name}" in error
    assert (tmp_path / "mine" / name / "patients.txt").read_text() == "mine"


def test_a_study_that_lost_its_settings_keeps_its_trials(study: Path, inline: InlineExecutor) -> None:
    (study / "study.yaml").unlink()
    assert search(study, *TWO)[0] == 2
    assert len(list((study / "trials" / "sae").iterdir())) == 2


def test_a_damaged_trial_hides_no_other_and_is_trained_again_when_deleted(study: Path, inline: InlineExecutor) -> None:
    first = next(StudyRecord(study).trials()).path
    whole = (first / "metrics.json").read_bytes()
    (first / "metrics.json").write_text("{")
    code, out, error = search(study, *TWO)
    assert code == 0, error
    assert "left out because it is damaged: sae/0" in out
    assert "delete this run folder" in out
    shutil.rmtree(first)
    assert search(study, *TWO)[0] == 0
    assert [job.name for job in inline.done] == ["sae/0"]
    assert (first / "metrics.json").read_bytes() == whole


def test_another_storage_is_refused(study: Path, tmp_path: Path, inline: InlineExecutor) -> None:
    code, _, error = search(study, *TWO, "--storage", f"sqlite:///{tmp_path}/other.db")
    assert code == 2
    assert "give the same --storage as before" in error


def timed_driver(study: Path, trials: int | None = None) -> Driver:
    """A driver with one hour for a study, whose own storage is not used."""
    record = StudyRecord.open(study)
    spaces = [build_space(method, DIGITS, {}, {}) for method in record.config.spaces]
    studies = open_studies(f"sqlite:///{study.parent}/o.db", record.config, spaces, record.objectives)
    return Driver(
        record, studies, DataSpec((1, 16, 16), Classification(10)), LocalExecutor(1), Budget(trials, 1.0, trials)
    )


def test_time_alone_is_shared_evenly_with_what_is_enumerated(tmp_path: Path) -> None:
    assert search(tmp_path / "x", "--hours", "1e-9", "--method", "sae,standard", "--set", "spaces.standard={}")[0] == 3
    driver = timed_driver(tmp_path / "x")
    asked = []
    for _ in range(12):
        study = driver._next_study()
        assert study is not None
        asked.append(study.ask().method)
    assert asked.count("sae") > 2


def test_methods_get_the_same_time_and_not_the_same_number_of_trials(tmp_path: Path) -> None:
    assert search(tmp_path / "x", "--hours", "1e-9", "--method", "sae,mc_dropout", "--sampler", "random")[0] == 3
    driver = timed_driver(tmp_path / "x")
    takes, asked = {"sae": 1.0, "mc_dropout": 5.0}, []
    for _ in range(18):
        study = driver._next_study()
        assert study is not None
        asked.append(study.ask().method)
        driver._worked[study.method] += takes[study.method]
    assert asked.count("sae") == 5 * asked.count("mc_dropout")


def test_asked_for_trials_are_dealt_in_turn_however_long_they_take(tmp_path: Path) -> None:
    assert search(tmp_path / "x", "--hours", "1e-9", "--method", "sae,mc_dropout", "--sampler", "random")[0] == 3
    driver = timed_driver(tmp_path / "x", trials=4)
    asked = []
    for _ in range(8):
        study = driver._next_study()
        assert study is not None
        asked.append(study.ask().method)
        driver._worked[study.method] += {"sae": 5.0, "mc_dropout": 1.0}[study.method]
    assert asked == ["sae", "mc_dropout"] * 4
    assert driver._next_study() is None


@pytest.mark.parametrize(
    ("trials", "forecast"), [(20, {"sae": 14, "mc_dropout": 13}), (None, {"sae": 9, "mc_dropout": 40})]
)
def test_the_forecast_deals_the_time_left_as_the_search_does(
    tmp_path: Path, trials: int | None, forecast: dict[str, int]
) -> None:
    assert search(tmp_path / "x", "--hours", "1e-9", "--method", "sae,mc_dropout", "--sampler", "random")[0] == 3
    driver = timed_driver(tmp_path / "x", trials)
    for name, seconds in (("sae", 240.0), ("mc_dropout", 48.0)):
        assert driver.forecast() is None
        study = driver.studies[name]
        study.tell_finished(study.ask().number, [0.5, 0.1, 1e5], {}, "run")
        driver._worked[name] += seconds
    assert driver.forecast() == forecast  # 3,600 s are left: 12.5 rounds of 288 s, or 1,944 s in all for each method


def test_the_forecast_is_said_once_and_again_where_it_was_wrong(tmp_path: Path) -> None:
    assert search(tmp_path / "x", "--hours", "1e-9", "--sampler", "random")[0] == 3
    driver, said = timed_driver(tmp_path / "x", trials=50), list[str]()
    line, study = ForecastLine(driver, said.append), driver.studies["sae"]
    for seconds in (60.0, 60.0, 300.0):
        line.update()
        study.tell_finished(study.ask().number, [0.5, 0.1, 1e5], {}, "run")
        driver._worked["sae"] += seconds
        line.update()
    assert said == [
        "all 50 planned trials should fit into 1 h",
        "about 29 of the 50 planned trials fit into 1 h: 29 of sae",
    ]


def test_a_grid_stays_inside_the_users_space() -> None:
    given = {"backbone": {"width": {"choice": [2, 3]}}}
    assert build_space("sae", DIGITS, given, {}).restricted_to_grid(k_free=False).template["backbone"]["width"] == 2


def test_a_method_section_says_what_is_searched(tmp_path: Path, inline: InlineExecutor) -> None:
    section = ("--set", "method={name: ensemble, members: 2}", "--json")
    code, out, error = search(tmp_path / "x", *section)
    assert code == 0, error
    assert list(json.loads(out)["trials"]) == ["ensemble"]
    code, _, error = search(tmp_path / "y", *section, "--method", "sae")
    assert code == 2
    assert "must name a method that is searched" in error


def test_numbers_of_yaml_may_be_written_as_everybody_writes_them(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("a: {log: [1e-3, 1]}\nb: 2E+6\nc: e5\nd: 1e\n")
    assert read_yaml(tmp_path / "x.yaml") == {"a": {"log": [0.001, 1]}, "b": 2e6, "c": "e5", "d": "1e"}


def test_what_is_not_on_the_front_any_more_is_not_shown_as_confirmed(study: Path, inline: InlineExecutor) -> None:
    code, out, error = search(study, *TWO, "--confirm", "1")
    assert code == 0, error
    assert "trained again on other seeds" in out
    assert "±" not in out.split("trained again", 1)[1].split("why:", 1)[0]
    confirmed = json.loads((study / "confirmed.json").read_text())
    confirmed["front"] = confirmed["front"][:1]
    confirmed["front"][0]["trial"] = "sae/99"
    (study / "confirmed.json").write_text(json.dumps(confirmed))
    out = search(study, *TWO)[1]
    assert "sae/99" not in out
    assert "not confirmed" in out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--address", "auto"), "--address needs --executor ray"),
        (("--confirm-most", "2"), "error: confirm.most, each, total and shifted need seeds: give --confirm SEEDS"),
        (("--storage", "nothing://x"), "--storage must be the URL of a database"),
        (("--storage", "sqlite:////nowhere/at/all.db"), "--storage must be the URL of a database"),
        (("--max", "flops=1"), "limits must leave sae something to try: flops ≤ 1, but the cheapest has"),
    ],
)
def test_what_can_have_no_effect_is_refused_before_anything_is_done(
    flags: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    code, _, error = search(tmp_path / "x", *TWO, *flags)
    assert code == 2
    assert message in error
    assert not (tmp_path / "x").exists()


def test_the_next_trial_on_changed_data_is_refused(tmp_path: Path, inline: InlineExecutor) -> None:
    rows = table_rows(60)
    data = write_csv(tmp_path / "data.csv", rows)
    flags = ("--data", str(data), "--target", "price", "--task", "regression", "--sampler", "random")
    assert search(tmp_path / "study", *flags, "--trials", "1")[0] == 0
    write_csv(data, list(reversed(rows)))
    code, _, error = search(tmp_path / "study", *flags, "--trials", "2")
    assert code == 0, error  # the same rows in another order are the same data
    write_csv(data, [{**rows[0], "price": 12345}, *rows[1:]])
    code, _, error = search(tmp_path / "study", *flags, "--trials", "3")
    assert code == 1
    assert "must hold the data that the run was trained on" in error
    assert "begin another study in another folder" in error
    write_csv(data, rows)
    code, _, error = search(tmp_path / "study", *flags, "--trials", "3")
    assert code == 0, error
    assert [job.name for job in inline.done] == ["sae/0", "sae/1", "sae/2", "sae/2"]
