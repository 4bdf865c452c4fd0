"""The command `sae search`, with training in this process; executors/test_local tests real workers."""

import json
from pathlib import Path

import pytest
import yaml
from optuna.trial import TrialState

from sae.analysis.candidates import candidates, front
from sae.analysis.selection import select
from sae.config.study import ConfirmConfig
from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from sae.search.confirm import Confirmation
from sae.training.run import train
from tests.end_to_end.killing import footprint, optuna_trials
from tests.search.studies import FINISHED, InlineExecutor, search

pytestmark = pytest.mark.long

RANDOM = ("--sampler", "random")


def states(out: Path, method: str = "sae") -> list[TrialState]:
    return [trial.state for trial in optuna_trials(out)[method]]


def test_a_finished_study_has_a_run_for_every_trial(finished_study: Path) -> None:
    record = StudyRecord.open(finished_study)
    assert [trial.label for trial in record.trials()] == [
        *("ensemble/0", "ensemble/1", "sae/0", "sae/1", "sae/2", "standard/0")
    ]
    assert all(trial.has_finished() for trial in record.trials())
    for method, trials in optuna_trials(finished_study).items():
        assert [trial.state for trial in trials] == [TrialState.COMPLETE] * len(trials)
        for trial in trials:
            run = RunRecord.open(finished_study / trial.user_attrs["run"])
            at_trained = run.read_evaluation().val.chosen
            expected = [at_trained.metrics["nll"], at_trained.metrics["cc_ece"], at_trained.flops]
            assert trial.values == expected, method


def test_the_same_command_again_changes_nothing_and_says_the_same(finished_study: Path, inline: InlineExecutor) -> None:
    first = search(finished_study, *FINISHED)
    before = footprint(finished_study / "trials")
    assert search(finished_study, *FINISHED) == first
    assert first[0] == 0
    assert inline.done == []
    assert footprint(finished_study / "trials") == before


def test_members_are_shared_and_give_what_training_would(finished_study: Path, tmp_path: Path) -> None:
    runs = {trial.label: trial for trial in StudyRecord(finished_study).trials()}
    for name in ("ensemble/1", "standard/0"):
        status = runs[name].read_status()
        assert status is not None
        assert status.derived_from == runs["ensemble/0"].path.name
        trained = train(runs[name].read_config(), tmp_path / name)
        for file in (RunRecord.METRICS, RunRecord.CURVES):
            assert (trained.path / file).read_bytes() == (runs[name].path / file).read_bytes()


def test_another_config_is_refused(finished_study: Path, inline: InlineExecutor) -> None:
    code, _, error = search(finished_study, *FINISHED, "--objectives", "nll,f1")
    assert code == 2
    assert "holds a study with another config (objectives" in error


def test_more_trials_go_on_where_fewer_ended(tmp_path: Path, inline: InlineExecutor) -> None:
    assert search(tmp_path / "x", *RANDOM, "--trials", "1")[0] == 0
    assert search(tmp_path / "x", *RANDOM, "--trials", "2")[0] == 0
    assert states(tmp_path / "x") == [TrialState.COMPLETE] * 2
    assert [job.name for job in inline.done] == ["sae/0", "sae/1"]


def test_trials_are_reproducible_with_one_worker(finished_study: Path, tmp_path: Path, inline: InlineExecutor) -> None:
    assert search(tmp_path / "x", *RANDOM, "--trials", "2")[0] == 0
    again, first = (StudyRecord(path) for path in (tmp_path / "x", finished_study))
    expected = {trial.label: trial.path for trial in first.trials()}
    for trial in again.trials():
        assert trial.path.name == expected[trial.label].name
        metrics = (trial.path / RunRecord.METRICS).read_bytes()
        assert metrics == (expected[trial.label] / RunRecord.METRICS).read_bytes()


def test_trials_that_must_break_a_limit_are_refused_and_do_not_count(tmp_path: Path, inline: InlineExecutor) -> None:
    wide = ("--set", "backbone.width={choice: [1, 8]}")
    code, _, error = search(tmp_path / "x", *RANDOM, *wide, "--trials", "3", "--max", "params=2e5")
    assert code == 0, error
    trials = optuna_trials(tmp_path / "x")["sae"]
    refused = [trial for trial in trials if "refused" in trial.user_attrs]
    trained = [trial for trial in trials if "refused" not in trial.user_attrs]
    assert {trial.params["backbone.width"] for trial in refused} == {8}
    assert len(trained) == 3
    [limit] = StudyRecord.open(tmp_path / "x").limits
    assert all(set(trial.constraints) == {str(limit)} for trial in trained)
    assert len(list(StudyRecord(tmp_path / "x").trials())) == 3


def test_what_training_shows_to_break_a_limit_is_not_on_the_front(tmp_path: Path, inline: InlineExecutor) -> None:
    assert search(tmp_path / "x", *RANDOM, "--trials", "2", "--min", "accuracy=1")[0] == 3  # ran, and gave nothing
    record = StudyRecord.open(tmp_path / "x")
    found = candidates(record.read_runs())
    assert found
    assert front(found, record.objectives, record.limits) == []
    assert {*states(tmp_path / "x")} == {TrialState.COMPLETE}


@pytest.mark.parametrize("method", ["sae", "standard"])
def test_limits_that_leave_nothing_are_named_with_the_least_there_is(
    method: str, tmp_path: Path, inline: InlineExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sae.search.screening.MOST_REFUSED", 5)
    for _ in range(2):  # and says it again when it is asked again
        code, _, error = search(tmp_path / "x", *RANDOM, "--method", method, "--max", "flops=10")
        assert code == 2
        assert "flops ≤ 10, but the cheapest has" in error


def test_diverging_trials_fail_and_the_search_goes_on(tmp_path: Path, inline: InlineExecutor) -> None:
    flags = (*RANDOM, "--trials", "4", "--set", "train.lr={choice: [1.0e-3, 1.0e+30]}", "--seed", "1")
    assert search(tmp_path / "x", *flags)[0] == 0
    trials = optuna_trials(tmp_path / "x")["sae"]
    for trial in trials:
        has_diverged = trial.params["train.lr"] > 1
        assert trial.state == (TrialState.FAIL if has_diverged else TrialState.COMPLETE)
        assert ("finite" in trial.user_attrs.get("error", "")) == has_diverged
    assert {trial.state for trial in trials} == {TrialState.FAIL, TrialState.COMPLETE}
    failed = {f"sae/{trial.number}" for trial in trials if trial.state == TrialState.FAIL}
    found = {item.label for item in candidates(StudyRecord(tmp_path / "x").read_runs())}
    assert len(found) == len(trials) - len(failed)
    assert not failed & found
    assert search(tmp_path / "x", *flags)[0] == 0
    assert len(inline.done) == 4  # what failed stays failed


def test_a_folder_that_cannot_be_written_stops_the_search_until_it_can(tmp_path: Path, inline: InlineExecutor) -> None:
    assert search(tmp_path / "x", *RANDOM, "--trials", "1")[0] == 0
    trials = tmp_path / "x" / "trials"
    trials.rename(tmp_path / "aside")
    trials.write_text("in the way")
    code, _, error = search(tmp_path / "x", *RANDOM, "--trials", "2")
    assert code in (1, 2)
    assert "the same command continues the search" in error
    assert states(tmp_path / "x") == [TrialState.COMPLETE]  # what lost its folder comes first
    trials.unlink()
    (tmp_path / "aside").rename(trials)
    assert search(tmp_path / "x", *RANDOM, "--trials", "2")[0] == 0
    assert states(tmp_path / "x") == [TrialState.COMPLETE] * 2


def test_shifted_validation_data_can_be_an_objective(tmp_path: Path, inline: InlineExecutor) -> None:
    flags = (*RANDOM, "--trials", "1", "--objectives", "nll@shift,flops")
    code, _, error = search(tmp_path / "x", *flags)
    assert code == 0, error
    trial = optuna_trials(tmp_path / "x")["sae"][0]
    run = RunRecord.open(tmp_path / "x" / trial.user_attrs["run"])
    shifted = json.loads((run.path / "shift-val.json").read_text())
    assert shifted["sets"] == 8
    assert trial.values[0] == shifted["metrics"]["nll"] != run.read_evaluation().val.metrics["nll"]


def test_a_search_with_shift_has_two_fronts_and_trains_both_again(tmp_path: Path, inline: InlineExecutor) -> None:
    out, confirm = tmp_path / "x", ("--confirm", "1", "--confirm-most", "2", "--confirm-shifted", "2")
    code, told, error = search(out, *RANDOM, "--trials", "2", "--shift", *confirm)
    assert code == 0, error
    record = StudyRecord.open(out)
    fronts = [{(item.label, item.eval_exits) for item in select(record, shift=shift).front} for shift in (False, True)]
    assert f"under shift:    {'the same' if fronts[0] == fronts[1] else 'another'} front" in told
    assert record.config.shift_sets == "all"
    for run in record.trials():
        shifted = json.loads((run.path / "shift-val.json").read_text())
        assert (shifted["sets"], shifted["by_set"]) == (95, [])  # a summary, which is quick to read
    confirmed = record.read_confirmed()
    assert confirmed is not None
    assert confirmed.shifted
    for items, shift in ((confirmed.front, False), (confirmed.shifted, True)):
        front = [(item.label, item.eval_exits) for item in select(record, shift=shift).front]
        chosen = [(item.trial, item.eval_exits) for item in items]
        assert len(chosen) == min(2, len(front))
        assert set(chosen) <= set(front)
        assert all(item.seeds == 1 and item.shift for item in items)
    folders = [job.folder for job in inline.done if "confirm" in job.folder.parts]
    assert len(folders) == len({item.trial for item in (*confirmed.front, *confirmed.shifted)}) == len(set(folders))
    inline.done.clear()
    assert search(out, *RANDOM, "--trials", "2", "--shift", *confirm)[0] == 0
    assert all(job.run.has_finished() for job in inline.done)


def test_a_study_of_one_network_has_the_same_front_under_shift(tmp_path: Path, inline: InlineExecutor) -> None:
    flags = ("--method", "standard", "--trials", "1", "--shift", "--shift-sets", "few")
    one = ("--set", "backbone.width=1", "--set", "backbone.depth=2")
    code, told, error = search(tmp_path / "x", *RANDOM, *flags, *one)
    assert code == 0, error
    assert "under shift:    the same front, of 1 configuration:" in told


def test_nothing_is_confirmed_under_shift_if_none_is_asked_for(tmp_path: Path, inline: InlineExecutor) -> None:
    confirm = ("--confirm", "1", "--confirm-most", "1", "--confirm-each", "1", "--confirm-shifted", "0")
    code, told, error = search(tmp_path / "x", *RANDOM, "--trials", "2", "--shift", "--shift-sets", "few", *confirm)
    assert code == 0, error
    confirmed = StudyRecord.open(tmp_path / "x").read_confirmed()
    assert confirmed is not None
    assert confirmed.shifted is None
    trained = {job.folder for job in inline.done if "confirm" in job.folder.parts}
    assert len(trained) == len({item.trial for item in confirmed.front})
    assert "trained again: `" not in told


ONLY_CONFIRMED = ("--shift", "--shift-sets", "few", "--set", "search.shift_trials=false")


def test_corrupted_test_images_may_be_kept_for_what_is_confirmed(tmp_path: Path, inline: InlineExecutor) -> None:
    out, confirm = tmp_path / "x", ("--confirm", "1", "--confirm-most", "1", "--confirm-shifted", "0")
    code, _, error = search(out, *RANDOM, "--trials", "1", *ONLY_CONFIRMED, *confirm)
    assert code == 0, error
    record = StudyRecord.open(out)
    [trial] = record.trials()
    assert (trial.has(trial.SHIFT["val"]), trial.has(trial.SHIFT["test"])) == (True, False)
    assert record.confirmed_run(trial.path, record.config.seed + 1).has(trial.SHIFT["test"])
    assert select(record, shift=True).front


def test_trials_are_tested_under_shift_if_nothing_is_confirmed(tmp_path: Path, inline: InlineExecutor) -> None:
    assert search(tmp_path / "x", *RANDOM, "--trials", "1", *ONLY_CONFIRMED)[0] == 0
    record = StudyRecord.open(tmp_path / "x")
    assert record.config.shift_trials
    assert all(trial.has(trial.SHIFT["test"]) for trial in record.trials())


def test_a_study_that_tested_its_trials_under_shift_goes_on_so(tmp_path: Path, inline: InlineExecutor) -> None:
    out, confirm = tmp_path / "x", ("--confirm", "1", "--confirm-most", "1", "--confirm-shifted", "0")
    assert search(out, *RANDOM, "--trials", "1", "--shift", "--shift-sets", "few")[0] == 0
    code, _, error = search(out, *RANDOM, "--trials", "1", *ONLY_CONFIRMED, *confirm)
    assert code == 0, error
    assert StudyRecord.open(out).config.shift_trials


def test_a_study_that_kept_corrupted_test_images_goes_on_without_confirming(
    tmp_path: Path, inline: InlineExecutor
) -> None:
    out, confirm = tmp_path / "x", ("--confirm", "1", "--confirm-most", "1", "--confirm-shifted", "0")
    assert search(out, *RANDOM, "--trials", "1", *ONLY_CONFIRMED, *confirm)[0] == 0
    code, _, error = search(out, *RANDOM, "--trials", "1", "--shift", "--shift-sets", "few")
    assert code == 0, error
    assert not StudyRecord.open(out).config.shift_trials
    asked = ("--shift", "--shift-sets", "few", "--set", "search.shift_trials=true")
    code, _, error = search(out, *RANDOM, "--trials", "1", *asked)
    assert code == 2
    assert "shift_trials" in error


def test_a_study_whose_first_trials_had_random_learning_rates_goes_on_so(
    tmp_path: Path, inline: InlineExecutor
) -> None:
    out, first = tmp_path / "x", ("--set", "search.first=[{method.inputs: 1}]")
    rates = ("--set", "train.lr={choice: [0.001, 0.003]}")
    assert search(out, *RANDOM, "--trials", "1", *rates, *first)[0] == 0
    path = out / StudyRecord.CONFIG
    stored = yaml.safe_load(path.read_text())
    assert stored["first"]["sae"] == [{"method.inputs": 1, "train.lr": rate} for rate in (0.001, 0.003)]
    earlier = {**stored, "first": {"sae": [{"method.inputs": 1}]}}
    path.write_text(f"{StudyRecord.MARK}\n{yaml.safe_dump(earlier)}")
    code, _, error = search(out, *RANDOM, "--trials", "2", *rates, *first)
    assert code == 0, error
    assert StudyRecord.open(out).config.first == {"sae": ({"method.inputs": 1},)}
    code, _, error = search(out, *RANDOM, "--trials", "3", *rates, "--set", "search.first=[{method.inputs: 2}]")
    assert code == 2
    assert "first" in error


def test_few_corrupted_sets_may_choose(tmp_path: Path, inline: InlineExecutor) -> None:
    assert search(tmp_path / "x", *RANDOM, "--trials", "1", "--shift", "--shift-sets", "few")[0] == 0
    [run] = StudyRecord.open(tmp_path / "x").trials()
    assert json.loads((run.path / "shift-val.json").read_text())["sets"] == 8
    code, _, error = search(tmp_path / "y", *RANDOM, "--shift-sets", "few")
    assert (code, error.count("\n")) == (2, 1)
    assert "no effect without --shift" in error


@pytest.mark.slow
def test_stopped_trials_stay_stopped(tmp_path: Path, inline: InlineExecutor) -> None:
    flags = (*RANDOM, "--epochs", "2", "--trials", "5", "--stop-early", "--set", "search.reduction=2")
    assert search(tmp_path / "x", *flags)[0] == 0
    assert TrialState.PRUNED in states(tmp_path / "x")
    assert states(tmp_path / "x")[0] == TrialState.COMPLETE  # the first passes
    stored = {f"sae/{number}": state for number, state in enumerate(states(tmp_path / "x"))}
    for trial in StudyRecord(tmp_path / "x").trials():
        status = trial.read_status()
        is_stopped = stored[trial.label] == TrialState.PRUNED
        assert status is not None
        assert status.state == ("stopped" if is_stopped else "finished")
        assert not is_stopped or status.epochs == 1
    before = footprint(tmp_path / "x" / "trials")
    assert search(tmp_path / "x", *flags)[0] == 0
    assert footprint(tmp_path / "x" / "trials") == before


def test_a_grid_without_k_trains_once_for_each_n(tmp_path: Path, inline: InlineExecutor) -> None:
    flags = ("--sampler", "grid", "--k-free", "--set", "method.inputs={int: [1, 2]}")
    assert search(tmp_path / "x", *flags)[0] == 0
    found = candidates(StudyRecord(tmp_path / "x").read_runs())
    assert len(inline.done) == 2
    assert [(item.config.method.num_inputs, item.exits, item.eval_exits) for item in found] == [
        *((1, 2, 1), (1, 2, 2), (2, 2, 1), (2, 2, 2))
    ]


def test_k_is_free_only_in_a_grid(tmp_path: Path) -> None:
    code, _, error = search(tmp_path / "x", "--k-free")
    assert code == 2
    assert "--k-free needs --sampler grid" in error


@pytest.mark.parametrize(
    "sampler", ["gp", *(pytest.param(name, marks=pytest.mark.slow) for name in ("scalarized", "tpe", "nsga2"))]
)
def test_every_sampler_searches(sampler: str, tmp_path: Path, inline: InlineExecutor) -> None:
    flags = ("--sampler", sampler, "--trials", "3", "--startup", "2", "--objectives", "nll,flops")
    assert search(tmp_path / "x", *flags)[0] == 0
    assert states(tmp_path / "x") == [TrialState.COMPLETE] * 3


def test_one_objective_is_enough(tmp_path: Path, inline: InlineExecutor) -> None:
    assert search(tmp_path / "x", "--trials", "2", "--startup", "1", "--objectives", "accuracy")[0] == 0
    assert states(tmp_path / "x") == [TrialState.COMPLETE] * 2


def test_regression_is_searched_for_its_own_objectives(tmp_path: Path, inline: InlineExecutor) -> None:
    code, _, error = search(tmp_path / "x", *RANDOM, "--data", "diabetes", "--trials", "1")
    assert code == 0
    assert "nll, mse, flops" in error
    assert states(tmp_path / "x") == [TrialState.COMPLETE]


def test_four_objectives_are_scalarized_and_it_is_said(tmp_path: Path, inline: InlineExecutor) -> None:
    code, _, error = search(tmp_path / "x", "--trials", "1", "--objectives", "nll,f1,flops,params")
    assert code == 0
    assert "by scalarized (the default for 4 objectives), 1 trial each" in error


def test_time_that_is_up_starts_no_trial(tmp_path: Path, inline: InlineExecutor) -> None:
    assert search(tmp_path / "x", *RANDOM, "--hours", "1e-9")[0] == 3  # ran, and gave nothing
    assert inline.done == []


ALL_METHODS = ("--method", "sae,ensemble,standard,mc_dropout,batch_ensemble", "--sampler", "random")
FOUR_SECONDS = ("--hours", str(4 / 3600))


def test_every_method_gets_trials_and_a_fair_share_of_the_hours(tmp_path: Path, inline: InlineExecutor) -> None:
    assert search(tmp_path / "x", *ALL_METHODS, *FOUR_SECONDS)[0] == 0
    trained = [job.config.method.name for job in inline.done]
    assert set(trained) == {"sae", "ensemble", "standard", "mc_dropout", "batch_ensemble"}
    assert trained[:5] == ALL_METHODS[1].split(",")  # in the order they were given, before any has two
    seconds = StudyRecord.open(tmp_path / "x").read_clock().by_method
    assert set(seconds) == set(trained)
    assert all(seconds.values())


def test_a_method_that_had_no_time_gets_one_trial_all_the_same(tmp_path: Path, inline: InlineExecutor) -> None:
    assert search(tmp_path / "x", *ALL_METHODS, "--hours", "1e-4")[0] == 0  # less than the first trial takes
    assert sorted(job.config.method.name for job in inline.done) == sorted(ALL_METHODS[1].split(","))


def test_asked_for_trials_are_of_each_method_also_of_small_spaces(tmp_path: Path, inline: InlineExecutor) -> None:
    code, _, error = search(tmp_path / "x", *ALL_METHODS, "--trials", "2", "--hours", "1")
    assert code == 0
    trained = [job.config.method.name for job in inline.done]
    assert {name: trained.count(name) for name in trained} == {
        **dict.fromkeys(("sae", "ensemble", "mc_dropout", "batch_ensemble"), 2),
        "standard": 1,  # its space has no more
    }
    assert "2 of the 4 configurations of ensemble" in error
    assert "the methods take turns, and no trial starts after 1 h" in error
    assert "all 9 planned trials should fit into 1 h" in error


def test_the_clock_decides_the_order_of_methods_and_not_their_configurations(
    tmp_path: Path, inline: InlineExecutor
) -> None:
    def tried(out: Path, *flags: str) -> dict[str, list[str]]:
        inline.done.clear()
        assert search(out, *ALL_METHODS[2:], "--method", "sae,standard", *flags)[0] == 0
        methods = {job.config.method.name for job in inline.done}
        return {name: [job.folder.name for job in inline.done if job.config.method.name == name] for name in methods}

    timed, counted = tried(tmp_path / "x", *FOUR_SECONDS), tried(tmp_path / "y", "--trials", "3")
    for method, folders in counted.items():
        shared = min(len(folders), len(timed[method]))
        assert folders[:shared] == timed[method][:shared]


def test_a_folder_at_work_is_left_alone(
    finished_study: Path, inline: InlineExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sae.records.folder.LOCK_PATIENCE", 0.1)
    before = footprint(finished_study / "trials")
    with StudyRecord(finished_study).lock():
        for force in ((), ("--force",)):
            code, _, error = search(finished_study, *FINISHED, *force)
            assert code == 2
            assert "is in use by another process: wait for it, or stop it" in error
    assert footprint(finished_study / "trials") == before
    assert StudyRecord.open(finished_study).read_seconds() > 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--objectives", "nll,foo"), "an objective of classification must be one of"),
        (("--objectives", "nll,nll"), "--objectives takes different names separated by commas"),
        (("--method", "sae,foo"), "method must be one of"),
        (("--objectives", '"nll'), "--objectives takes names separated by commas, quoted as in"),
        (("--method", "sae,sae"), "--method takes different names separated by commas"),
        (("--sampler", "foo"), "sampler must be 'gp', 'scalarized'"),
        (("--max", "flops"), "--max takes name=number"),
        (("--max", "foo=3"), "an objective of classification must be one of"),
        (
            ("--set", "spaces.ensemble.backbone.width=1"),
            "spaces must name methods that are searched (sae), got ensemble",
        ),
        (("--set", "method.inputs={int: [4, 1]}"), "must not be above the upper end"),
        (("--set", "search.first=[{method.input: 1}]"), "first must hold paths of settings, e.g. method.inputs, got"),
        (("--set", "search.first={method.inputs: 1}"), "first must be a list, got {'method.inputs': 1}"),
        (("--storage", "nothing://x"), "--storage must be the URL of a database"),
        (("--data", "diabetes", "--objectives", "nll@shift"), "diabetes is a table"),
    ],
)
def test_a_mistake_is_one_sentence(
    flags: tuple[str, ...], message: str, tmp_path: Path, inline: InlineExecutor
) -> None:
    code, _, error = search(tmp_path / "x", *flags)
    assert code == 2
    assert message in error
    assert error.strip().splitlines()[-1].startswith("error: ")


def test_limits_bind_the_pick_and_not_its_rivals(tmp_path: Path, inline: InlineExecutor) -> None:
    out = tmp_path / "x"
    flags = ("--method", "sae,ensemble", "--set", "spaces.ensemble.method.members=4", "--trials", "3")
    code, _, error = search(out, *RANDOM, *flags, "--max", "flops=1.5e5", "--confirm", "1", "--confirm-each", "1")
    assert code == 0, error
    record = StudyRecord.open(out)
    found = candidates(record.read_runs())
    rivals = [item for item in found if item.method == "ensemble"]
    assert rivals
    assert all(item.values["flops"] > 1.5e5 for item in rivals)
    selection = select(record)
    assert all(item.values["flops"] <= 1.5e5 for item in selection.front)
    assert selection.best_of("ensemble", selection.front[0]) is not None
    confirmed = record.read_confirmed()
    assert confirmed is not None
    assert any(item.trial.startswith("ensemble/") for item in confirmed.front)


def test_predictions_are_kept_of_what_is_confirmed_and_of_nothing_else(tmp_path: Path, inline: InlineExecutor) -> None:
    flags = (*RANDOM, "--method", "standard", "--trials", "1", "--confirm", "1")
    assert search(tmp_path / "x", *flags)[0] == 0
    folders = {job.folder for job in inline.done}
    again = {folder for folder in folders if "confirm" in folder.parts}
    assert again
    assert {folder for folder in folders if RunRecord(folder).has(RunRecord.PREDICTIONS)} == again
    without = Confirmation(StudyRecord.open(tmp_path / "x"), inline, ConfirmConfig(seeds=1, predictions=False))
    assert not any(job.predictions for job in without.jobs)
