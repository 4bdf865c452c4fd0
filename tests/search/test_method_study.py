import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState

from sae.config.methods import SaeConfig
from sae.config.run import RunConfig
from sae.config.study import SAMPLERS
from sae.core.errors import ConfigError
from sae.core.objectives import objectives
from sae.search.method_study import ERROR, REFUSED, MethodStudy, open_studies
from sae.search.samplers.repeatable import FixedSampler, make_sampler
from tests.search.studies import made_up_values, study_of

pytestmark = pytest.mark.long

FAST = ("gp", "random")
SAMPLED = [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in SAMPLERS if name != "grid"]


def ask_and_tell(study: MethodStudy, count: int) -> list[RunConfig]:
    configs = []
    for _ in range(count):
        asked = study.ask()
        study.tell_finished(asked.number, made_up_values(asked.number, len(study.config.objectives)), {}, "run")
        configs.append(asked.config)
    return configs


def test_what_is_told_is_in_the_storage(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    first, second, third = study.ask(), study.ask(), study.ask()
    study.tell_finished(first.number, [0.5, 100.0], {}, "trials/sae/0")
    study.tell_failed(second.number, "it broke")
    study.tell_stopped(third.number)
    stored = optuna.load_study(study_name="sae x", storage=f"sqlite:///{tmp_path / 'optuna.db'}")
    assert [trial.state for trial in stored.trials] == [TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED]
    assert stored.trials[0].values == [0.5, 100.0]
    assert stored.trials[0].user_attrs == {"run": "trials/sae/0"}
    assert stored.trials[1].user_attrs == {ERROR: "it broke"}
    assert stored.metric_names == ["nll", "flops"]


def test_metrics_that_are_to_be_large_are_maximised(tmp_path: Path) -> None:
    study = study_of(tmp_path, names=("f1", "flops"))
    assert [direction.name for direction in study.optuna.directions] == ["MAXIMIZE", "MINIMIZE"]


@pytest.fixture(scope="module", params=SAMPLED)
def begun(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, list[RunConfig]]:
    """Return a sampler, a study of four told trials, and the next two trials that the same object asks for."""
    folder = tmp_path_factory.mktemp("begun")
    study = study_of(folder, sampler=request.param)
    ask_and_tell(study, 4)
    (folder / "copy").mkdir()
    shutil.copy(folder / "optuna.db", folder / "copy")
    return request.param, folder / "copy", ask_and_tell(study, 2)


def test_asks_depend_on_seed_and_history_alone(begun: tuple[str, Path, list[RunConfig]], tmp_path: Path) -> None:
    sampler, folder, expected = begun
    shutil.copy(folder / "optuna.db", tmp_path)
    assert [ask_and_tell(study_of(tmp_path, sampler=sampler), 1)[0] for _ in expected] == expected
    assert expected[0] != expected[1]


def test_another_seed_asks_for_other_trials(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    assert make_sampler("random", 1, 3).sample_independent(
        study.optuna, study.optuna.ask()._cached_frozen_trial, "x", FloatDistribution(0, 1)
    ) != make_sampler("random", 2, 3).sample_independent(
        study.optuna, study.optuna.ask()._cached_frozen_trial, "x", FloatDistribution(0, 1)
    )


@pytest.mark.parametrize("stored", [0, 4])
def test_a_trial_cut_short_in_asking_is_completed_as_it_would_have_been(
    begun: tuple[str, Path, list[RunConfig]], stored: int, tmp_path: Path
) -> None:
    sampler, folder, expected = begun
    shutil.copy(folder / "optuna.db", tmp_path)
    cut_short(study_of(tmp_path, sampler=sampler), stored)
    resumed = study_of(tmp_path, sampler=sampler)
    assert [asked.config for asked in resumed.unfinished()] == [expected[0]]


def test_a_first_trial_cut_short_in_asking_is_completed_as_it_would_have_been(tmp_path: Path) -> None:
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    cut_short(study_of(tmp_path / "cut"), 3)
    expected = study_of(tmp_path / "whole").ask()
    assert study_of(tmp_path / "cut").unfinished() == [expected]


def test_given_trials_come_first_and_are_random_in_everything_else(tmp_path: Path) -> None:
    first = {"sae": ({"method.inputs": 1}, {"method.inputs": 3})}
    for name in ("given", "cut", "free"):
        (tmp_path / name).mkdir()
    asked = ask_and_tell(study_of(tmp_path / "given", first=first), 4)
    free = ask_and_tell(study_of(tmp_path / "free"), 4)
    assert [config.method.inputs for config in asked[:2] if isinstance(config.method, SaeConfig)] == [1, 3]
    others = [[config.model_copy(update={"method": None}) for config in found] for found in (asked[:2], free[:2])]
    assert others[0] == others[1]
    assert asked[0].method != asked[1].method
    cut_short(study_of(tmp_path / "cut", first=first), 1)
    assert study_of(tmp_path / "cut", first=first).unfinished()[0].config == asked[0]


def cut_short(study: MethodStudy, stored: int) -> None:
    """Leave the study as if it had been killed while asking for a trial."""
    study.optuna.sampler = study._sampler(len(study.trials()))
    trial = study.optuna.ask()
    for name, distribution in list(study.space.distributions.items())[:stored]:
        trial._suggest(name, distribution)
    assert len(study.optuna.get_trials()[-1].params) == stored


def test_what_is_unfinished_is_asked_again_and_can_be_told(tmp_path: Path) -> None:
    asked = study_of(tmp_path).ask()
    again = study_of(tmp_path)
    assert again.unfinished() == [asked]
    again.tell_finished(asked.number, [0.1, 1.0], {}, "run")
    assert study_of(tmp_path).unfinished() == []
    assert study_of(tmp_path).count(TrialState.COMPLETE) == 1


def test_after_a_failed_trial_the_next_is_random(tmp_path: Path) -> None:
    for name in ("gp", "random"):
        (tmp_path / name).mkdir()
    modelled, random = (study_of(tmp_path / name, sampler=name, startup=2) for name in ("gp", "random"))
    for study in (modelled, random):
        for number in range(4):
            study.ask()
            study.tell_finished(number, made_up_values(number, 2), {}, "run")
    for study in (modelled, random):
        study.ask()
        study.tell_failed(4, "diverged")
    after_failure = modelled.ask()
    assert after_failure.config == random.ask().config
    modelled.tell_finished(5, made_up_values(5, 2), {}, "run")
    random.tell_finished(5, made_up_values(5, 2), {}, "run")
    assert modelled.ask().config != random.ask().config


def test_constraints_are_stored_once(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    asked = study.ask()
    study._open[asked.number].set_constraint("flops ≤ 10", -0.5)  # and killed before `tell`
    again = study_of(tmp_path)
    again.unfinished()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again.tell_finished(asked.number, [0.5, 5.0], {"flops ≤ 10": -0.5, "f1 ≥ 0.8": 0.2}, "run")
    assert study_of(tmp_path).trials()[0].constraints == {"flops ≤ 10": -0.5, "f1 ≥ 0.8": 0.2}


def test_refused_trials_do_not_count(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    study.refuse(study.ask(), "too large")
    study.tell_failed(study.ask().number, "diverged")
    assert (study.num_asked(), study.num_refused(), study.count(TrialState.FAIL)) == (1, 1, 1)
    assert study.budget(10) == 10
    assert study.trials()[0].user_attrs == {REFUSED: "too large"}


def test_a_small_finite_space_is_tried_out_in_order_and_in_full(tmp_path: Path) -> None:
    given: dict[str, Any] = {"backbone": {"name": "fc", "depth": 2, "width": {"choice": [1, 4]}}}
    study = study_of(tmp_path, "ensemble", given=given, grid=8)
    assert study.is_enumerated
    assert study.budget(3) == 8
    asked = [study_of(tmp_path, "ensemble", given=given, grid=8).ask().config for _ in range(8)]
    assert asked == [study.space.fill(point) for point in study.space.points()]
    assert not study_of(tmp_path, "ensemble", given=given, grid=7).is_enumerated


def test_a_small_space_that_may_be_cut_is_tried_all_over_and_nothing_twice(tmp_path: Path) -> None:
    given: dict[str, Any] = {"backbone": {"name": "fc", "depth": {"choice": [2, 5]}, "width": {"choice": [1, 4]}}}
    study = study_of(tmp_path, "standard", given=given, grid=4)
    first = study.ask().config  # in order, by an earlier session without a limit
    study.is_spread = True
    assert study.budget(100, most=3) == 3
    asked = [first, *(study.ask().config for _ in range(3))]
    assert (asked[1].backbone.width, asked[1].backbone.depth) != (first.backbone.width, first.backbone.depth)
    assert len({config.model_dump_json() for config in asked}) == study.space.size == 4


def test_two_enumerated_trials_cut_short_are_two_points(tmp_path: Path) -> None:
    given: dict[str, Any] = {"backbone": {"depth": {"int": [1, 3]}}}
    study = study_of(tmp_path, "standard", given=given, grid=100)
    for _ in range(2):
        study.optuna.ask()  # killed before any of its values was stored
    first, second = (asked.config for asked in study_of(tmp_path, "standard", given=given, grid=100).unfinished())
    assert first != second


def test_a_grid_is_tried_in_full_whatever_number_of_trials_is_asked_for(tmp_path: Path) -> None:
    given: dict[str, Any] = {"backbone": {"name": "fc", "depth": {"choice": [2, 5]}}}
    assert study_of(tmp_path, "standard", given=given, sampler="grid").budget(1, most=1) == 8


def test_an_enumerated_trial_cut_short_is_its_point(tmp_path: Path) -> None:
    study = study_of(tmp_path, "standard", given={"backbone": {"depth": {"int": [1, 3]}}}, grid=100)
    point = next(study.space.points())
    study.optuna.sampler = FixedSampler(point)
    study.optuna.ask()
    assert study_of(tmp_path, "standard", given={"backbone": {"depth": {"int": [1, 3]}}}, grid=100).unfinished()[
        0
    ].config == study.space.fill(point)


def test_rungs_are_remembered(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    numbers = [study.ask().number for _ in range(3)]
    study.note_rung(numbers[0], 2, [0.1, 0.2], passes=True)
    study.note_rung(numbers[1], 2, [0.3, 0.4], passes=False)
    again = study_of(tmp_path)
    assert [again.rung(number, 2) for number in numbers] == [True, False, None]
    assert [again.is_stopped(number) for number in numbers] == [False, True, False]
    np.testing.assert_array_equal(again.losses_at(2), [[0.1, 0.2], [0.3, 0.4]])
    assert again.losses_at(4).shape == (0, 2)


@pytest.mark.parametrize(
    "url", ["nothing://x", "sqlite:////nowhere/at/all/x.db", "postgresql+psycopg://a@127.0.0.1:9/x"]
)
def test_a_database_that_cannot_be_reached_is_named(url: str, tmp_path: Path) -> None:
    config = study_of(tmp_path).config
    with pytest.raises(ConfigError, match="--storage must be the URL of a database that can be reached"):
        open_studies(url, config, [], objectives(["nll"], "classification"))
