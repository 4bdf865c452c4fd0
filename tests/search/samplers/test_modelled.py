from collections.abc import Sequence

import numpy as np
import optuna
import pytest
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.samplers import GPSampler, RandomSampler
from optuna.trial import FrozenTrial, create_trial

from sae.search.samplers import modelled, scalarized
from sae.search.samplers.gaussian_process import Floats, GaussianProcess, fit
from sae.search.samplers.modelled import CappedGPSampler, modelled_trials, rank_trials
from sae.search.samplers.scalarized import ScalarizedSampler

SPACE: dict[str, BaseDistribution] = {"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)}


def history(number: int) -> list[FrozenTrial]:
    points = np.random.default_rng(0).random((number, 2))
    return [
        create_trial(params={"x": x, "y": y}, distributions=SPACE, values=[x + y * y, (1 - x) + y])
        for x, y in points.tolist()
    ]


def study_of(trials: Sequence[FrozenTrial]) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=RandomSampler(seed=0))
    study.add_trials(trials)
    return study


def test_few_trials_are_all_modelled() -> None:
    assert modelled_trials(np.array([2, 0, 1]), 3).tolist() == [0, 1, 2]


def test_of_many_trials_the_best_and_the_latest_are_modelled_and_none_twice() -> None:
    ranking = np.random.default_rng(1).permutation(500)
    kept = modelled_trials(ranking, 40)
    assert len(set(kept.tolist())) == len(kept) == 40
    assert set(ranking[:20]) <= set(kept)
    assert set(range(490, 500)) <= set(kept)
    assert kept.tolist() == sorted(kept)
    assert kept.tolist() == modelled_trials(ranking, 40).tolist()


def test_the_feasible_front_ranks_before_the_rest_and_violations_last() -> None:
    study = study_of([])
    for values, violation in (([1.0, 1.0], 0.0), ([0.0, 2.0], -1.0), ([2.0, 2.0], 0.0), ([0.0, 0.0], 1.0)):
        trial = study.ask()
        trial.set_constraint("cost", violation)
        study.tell(trial, values)
    order = rank_trials(study.trials, study.directions)
    assert order.tolist()[2:] == [2, 3]
    assert set(order.tolist()[:2]) == {0, 1}


def test_the_scalarized_sampler_fits_models_to_no_more_trials_than_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def note(points: Floats, values: Floats) -> GaussianProcess:
        sizes.append(len(points))
        return fit(points, values)

    monkeypatch.setattr(scalarized, "fit", note)
    study = study_of(history(60))
    study.sampler = ScalarizedSampler(0, 5, most=24)
    study.ask(SPACE)
    assert sizes == [24, 24]


def test_up_to_the_cap_suggestions_are_as_without_one() -> None:
    asked = []
    for most in (30, 10_000):
        study = study_of(history(30))
        study.sampler = ScalarizedSampler(0, 5, most=most)
        asked.append(study.ask(SPACE).params)
    assert asked[0] == asked[1]


@pytest.mark.parametrize(("cap", "expected"), [(20, 20), (1000, 40)])
def test_optunas_sampler_sees_no_more_trials_than_the_cap(
    cap: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def note(self: GPSampler, study: optuna.Study, trial: FrozenTrial, space: object) -> dict[str, float]:
        seen.append(len(study._get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,), use_cache=False)))
        return {"x": 0.5, "y": 0.5}

    monkeypatch.setattr(modelled, "MOST_MODELLED", cap)
    monkeypatch.setattr(modelled_trials, "__defaults__", (cap,))
    monkeypatch.setattr(GPSampler, "sample_relative", note)
    study = study_of(history(40))
    study.sampler = CappedGPSampler(seed=0, n_startup_trials=5)
    study.ask(SPACE)
    assert seen == [expected]


def test_optunas_sampler_suggests_from_a_capped_study(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modelled, "MOST_MODELLED", 8)
    monkeypatch.setattr(modelled_trials, "__defaults__", (8,))
    study = study_of(history(12))
    study.sampler = CappedGPSampler(seed=0, n_startup_trials=5)
    assert set(study.ask(SPACE).params) == {"x", "y"}
