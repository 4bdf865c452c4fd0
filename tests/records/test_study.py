import shutil
from pathlib import Path

import pytest

from sae.core.errors import RecordError
from sae.records.run import read_run
from sae.records.study import StudyRecord, config_hash
from tests.builders import run_config
from tests.studies import StudyBuilder, sae, small_study, study_config


@pytest.fixture
def study(tmp_path: Path) -> StudyRecord:
    return small_study(tmp_path / "study").record


def test_a_study_is_read_as_it_was_begun(tmp_path: Path) -> None:
    config = study_config(max={"flops": 2e6}, min={"f1": 0.8}, objectives=("nll@shift", "params"), rungs=(3, 9))
    StudyRecord.create(tmp_path / "s", config)
    record = StudyRecord.open(tmp_path / "s")
    assert record.config == config
    assert [item.name for item in record.objectives] == ["nll@shift", "params"]
    assert [str(limit) for limit in record.limits] == ["flops ≤ 2,000,000", "f1 ≥ 0.8"]


def test_a_study_with_other_settings_is_refused_and_the_difference_named(study: StudyRecord) -> None:
    with pytest.raises(RecordError, match=r"holds a study with another config .seed 0 → 1"):
        StudyRecord.create(study.path, study_config(seed=1))


@pytest.mark.parametrize("name", ["absent", "."])
def test_a_folder_that_is_no_study_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"is not a study folder: it has no study.yaml from `sae search`"):
        StudyRecord.open(tmp_path / name)


def test_a_run_is_no_study(study: StudyRecord) -> None:
    with pytest.raises(RecordError, match="study folder"):
        StudyRecord.open(next(study.trials()).path)


def test_damaged_settings_are_named(study: StudyRecord) -> None:
    (study.path / study.CONFIG).write_text("seed: x")
    with pytest.raises(RecordError, match=r"study.yaml cannot be used"):
        StudyRecord.open(study.path)


def test_trials_are_read_by_method_and_number_with_their_states(study: StudyRecord) -> None:
    assert [(run.label, run.state) for run in study.read_runs()] == [
        ("sae/0", "finished"),
        ("sae/1", "failed"),
        ("sae/2", "finished"),
        ("sae/3", "stopped"),
        ("sae/4", "unfinished"),
        ("standard/0", "finished"),
    ]


def test_ten_trials_come_in_order(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    for _ in range(11):
        study.begin(sae(1, 1))
    assert [trial.label for trial in study.record.trials()] == [f"sae/{number}" for number in range(11)]


def test_a_study_without_trials_has_none(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s").record
    assert list(study.trials()) == []
    assert study.read_runs() == []
    assert study.read_seconds() == 0.0
    assert study.read_confirmed() is None


def test_folders_that_hold_no_run_are_no_trials(study: StudyRecord) -> None:
    before = list(study.trials())
    for name in ("00009-abc", "my-notes", "2nd-notes"):
        (study.path / study.TRIALS / "sae" / name).mkdir()
    for name in ("my-notes", "2nd-notes"):
        (study.path / study.TRIALS / "sae" / name / "config.yaml").write_text("")
    assert before != []
    assert [trial.path for trial in study.trials()] == [trial.path for trial in before]


def test_the_folder_of_a_trial_follows_from_its_number_and_config(study: StudyRecord) -> None:
    one, same, other = run_config(), run_config(), run_config(seed=1)
    assert study.trial("sae", 3, one).path == study.trial("sae", 3, same).path
    assert len({study.trial("sae", n, c).path for n in (3, 4) for c in (one, other)}) == 4
    assert config_hash(one) == config_hash(same) != config_hash(other)


def test_force_deletes_the_study_and_nothing_else(study: StudyRecord) -> None:
    (study.path / "notes.txt").write_text("mine")
    StudyRecord.create(study.path, study_config(seed=1), force=True)
    assert StudyRecord.open(study.path).config.seed == 1
    assert list(study.trials()) == []
    assert (study.path / "notes.txt").read_text() == "mine"


def test_the_time_spent_is_remembered(study: StudyRecord) -> None:
    study.write_json(study.CLOCK, {"seconds": 12.5})
    assert study.read_seconds() == 12.5


@pytest.mark.parametrize("text", ["{", "{}", '{"seconds": "12"}'])
def test_a_damaged_clock_is_named(text: str, study: StudyRecord) -> None:
    (study.path / study.CLOCK).write_text(text)
    with pytest.raises(RecordError, match=r"clock.json is damaged"):
        study.read_seconds()


@pytest.mark.parametrize("text", ["{", "{}", '{"objectives": [], "seeds": [1], "front": [{"trial": "sae/0"}]}'])
def test_a_damaged_summary_is_named_with_what_to_do(text: str, study: StudyRecord) -> None:
    (study.path / study.CONFIRMED).write_text(text)
    with pytest.raises(RecordError, match=r"confirmed.json is damaged .*: delete it, and the command that made it"):
        study.read_confirmed()


def test_a_damaged_trial_is_named_with_what_to_do_and_hides_no_other(study: StudyRecord) -> None:
    trials = {trial.label: trial.path for trial in study.trials()}
    (trials["sae/0"] / "metrics.json").write_text("{")
    (trials["sae/1"] / "status.json").write_text("{")
    (trials["sae/3"] / "config.yaml").write_text("nonsense: 3")
    runs = {run.label: run for run in study.read_runs()}
    assert [label for label, run in runs.items() if run.state == "damaged"] == ["sae/0", "sae/1", "sae/3"]
    assert [run.method for run in runs.values()] == ["sae"] * 5 + ["standard"]
    assert "metrics.json is damaged" in str(runs["sae/0"].damage)
    assert "delete this run folder, and the same search trains it again" in str(runs["sae/1"].damage)
    assert "config.yaml cannot be used" in str(runs["sae/3"].damage)


def test_the_run_that_confirms_a_trial_is_in_the_study_wherever_the_trial_was(study: StudyRecord) -> None:
    record = study.confirmed_run(Path("/elsewhere/trials/sae/00003-abc"), 7)
    assert record.path == study.path / "confirm" / "sae" / "00003-abc" / "seed-7"
    assert read_run(record).state == "damaged"  # it has not begun


def test_a_study_is_read_as_it_is_now_however_often_it_was_read(study: StudyRecord) -> None:
    before = {run.label: run for run in study.read_runs()}
    changed, added, removed = (before[label].record for label in ("sae/0", "sae/4", "sae/2"))
    settings = (changed.path / changed.CONFIG).read_text()
    (changed.path / changed.CONFIG).write_text(settings.replace("epochs: ", "epochs: 9"))
    (changed.path / changed.METRICS).write_bytes((before["standard/0"].record.path / changed.METRICS).read_bytes())
    added.end("failed", error="too bad")
    shutil.rmtree(removed.path)
    after = {run.label: run for run in study.read_runs()}
    assert list(after) == ["sae/0", "sae/1", "sae/3", "sae/4", "standard/0"]
    one, other = before["sae/0"].config, after["sae/0"].config
    assert one is not None
    assert other is not None
    assert other.train.epochs == int(f"9{one.train.epochs}")
    assert after["sae/0"].evaluation == before["standard/0"].evaluation
    assert after["sae/4"].state == "failed"
