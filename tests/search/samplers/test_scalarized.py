import itertools
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from sae.search.samplers.scalarized import ScalarizedSampler, clip_infinite

pytestmark = pytest.mark.long

SPACE: dict[str, BaseDistribution] = {
    "where": FloatDistribution(0, 1),
    "level": IntDistribution(0, 8),
    "more": FloatDistribution(0, 1),
    "rate": FloatDistribution(1e-4, 1, log=True),
    "near": FloatDistribution(0, 1),
    "kind": CategoricalDistribution(["first", "second", "third"]),
}
STARTUP = 8

Directions = list[Literal["minimize", "maximize"]]


@pytest.fixture(autouse=True)
def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def four_losses(params: Mapping[str, Any]) -> list[float]:
    """Mixed DTLZ2: on the front the squares sum to 1."""
    kind = {"first": 0.0, "second": 0.1, "third": 0.3}[params["kind"]]
    distance = (params["near"] - 0.5) ** 2 + (np.log10(params["rate"]) / -4 - 0.5) ** 2 + kind
    a, b, c = np.pi / 2 * np.array([params["where"], params["level"] / 8, params["more"]])
    angles = [np.cos(a) * np.cos(b) * np.cos(c), np.cos(a) * np.cos(b) * np.sin(c), np.cos(a) * np.sin(b), np.sin(a)]
    return [float((1 + distance) * angle) for angle in angles]


def study_of(sampler: BaseSampler, directions: Directions | None = None) -> optuna.Study:
    return optuna.create_study(directions=directions or ["minimize"] * 4, sampler=sampler)


def history(num_trials: int, seed: int = 0) -> list[FrozenTrial]:
    study = study_of(RandomSampler(seed=seed))
    for _ in range(num_trials):
        trial = study.ask(SPACE)
        study.tell(trial, four_losses(trial.params))
    return study.trials


def suggestion(trials: list[FrozenTrial], seed: int, num_startup: int = STARTUP) -> dict[str, Any]:
    study = study_of(ScalarizedSampler(seed, num_startup))
    study.add_trials(trials)
    return study.ask(SPACE).params


def dominated_share(losses: list[list[float]], reference: float) -> float:
    """Hypervolume by sampling the box below the reference."""
    points = np.random.default_rng(0).uniform(0, reference, (4000, len(losses[0])))
    return float((np.array(losses)[:, None] <= points).all(axis=-1).any(axis=0).mean())


@pytest.mark.parametrize("num_trials", [0, 3, 12])
def test_a_fresh_sampler_with_the_same_seed_and_history_suggests_the_same(num_trials: int) -> None:
    trials = history(num_trials)
    assert suggestion(trials, seed=5) == suggestion(trials, seed=5)
    assert suggestion(trials, seed=5) != suggestion(trials, seed=6)


def test_a_suggestion_does_not_depend_on_earlier_suggestions_of_the_same_sampler() -> None:
    used = ScalarizedSampler(3, STARTUP)
    for number in range(3):
        study = study_of(used)
        study.add_trials(history(12, seed=number))
        assert study.ask(SPACE).params == suggestion(history(12, seed=number), seed=3)


def test_suggestions_before_startup_depend_on_no_loss() -> None:
    trials = history(STARTUP - 1)
    others = [create_trial(params=t.params, distributions=SPACE, values=[1.0, 2.0, 3.0, 4.0]) for t in trials]
    assert suggestion(trials, seed=0) == suggestion(others, seed=0)
    assert suggestion(trials, seed=0, num_startup=1) != suggestion(others, seed=0, num_startup=1)


def test_more_of_the_front_is_found_than_by_random_search() -> None:
    def found(sampler: BaseSampler) -> float:
        study = study_of(sampler)
        for _ in range(30):
            trial = study.ask(SPACE)
            study.tell(trial, four_losses(trial.params))
        return dominated_share([trial.values for trial in study.trials], reference=1.5)

    ours = [found(ScalarizedSampler(seed, STARTUP)) for seed in range(3)]
    random = [found(RandomSampler(seed=seed)) for seed in range(3)]
    assert np.mean(ours) > np.mean(random) + 0.05


def test_maximised_objectives_are_negated_losses() -> None:
    def suggest(directions: Directions, signs: list[int]) -> dict[str, Any]:
        study = study_of(ScalarizedSampler(0, STARTUP), directions)
        for trial in history(12):
            values = [sign * value for sign, value in zip(signs, trial.values, strict=True)]
            study.add_trial(create_trial(params=trial.params, distributions=SPACE, values=values))
        return study.ask(SPACE).params

    minimised = suggest(["minimize"] * 4, [1, 1, 1, 1])
    assert suggest(["minimize", "maximize", "maximize", "minimize"], [1, -1, -1, 1]) == minimised
    assert suggest(["minimize", "maximize", "maximize", "minimize"], [1, 1, 1, 1]) != minimised


@st.composite
def distributions(draw: st.DrawFn) -> BaseDistribution:
    low, extent = draw(st.integers(1, 50)), draw(st.integers(0, 50))
    return draw(
        st.sampled_from(
            [
                IntDistribution(low, low + extent),
                IntDistribution(low, low + extent, log=True),
                IntDistribution(-low, -low + 3 * extent, step=3),
                FloatDistribution(low / 1000, low / 1000 + extent, log=True),
                FloatDistribution(-low, -low + extent / 7),
                FloatDistribution(low, low + extent, step=0.25),
                CategoricalDistribution([None, True, "text", 2.5][: low % 4 + 1]),
            ]
        )
    )


@settings(max_examples=30)
@given(st.lists(distributions(), min_size=1, max_size=4), st.integers(0, 3))
def test_suggestions_are_valid_values_of_any_mixed_space(listed: list[BaseDistribution], num_startup: int) -> None:
    space = {f"p{index}": distribution for index, distribution in enumerate(listed)}
    study = study_of(ScalarizedSampler(0, num_startup), ["minimize", "maximize"])
    for number in range(4):
        trial = study.ask(space)
        for name, value in trial.params.items():
            assert space[name]._contains(space[name].to_internal_repr(value))
        study.tell(trial, [float(number), float(number % 2)])


def test_a_parameter_of_one_value_keeps_it_and_harms_no_other() -> None:
    space = {**SPACE, "fixed": IntDistribution(3, 3), "only": CategoricalDistribution(["this"])}
    study = study_of(ScalarizedSampler(0, 2))
    for _ in range(4):
        trial = study.ask(space)
        assert (trial.params["fixed"], trial.params["only"]) == (3, "this")
        study.tell(trial, four_losses(trial.params))


def test_only_parameters_of_one_value_are_suggested_too() -> None:
    study = study_of(ScalarizedSampler(0, 0), ["minimize"])
    for _ in range(3):
        trial = study.ask({"fixed": FloatDistribution(0.5, 0.5)})
        assert trial.params == {"fixed": 0.5}
        study.tell(trial, 1.0)


def test_parallel_asks_are_all_different_until_the_space_is_exhausted() -> None:
    space: dict[str, BaseDistribution] = {
        "n": IntDistribution(1, 4),
        "kind": CategoricalDistribution(["a", "b", "c"]),
    }
    study = study_of(ScalarizedSampler(0, 2), ["minimize", "minimize"])
    first = study.ask(space)
    study.tell(first, [1.0, 2.0])
    trials = [first]
    for number in range(11):
        trials.append(study.ask(space))
        if number % 3 == 0:
            study.tell(trials[-1], [float(number), 1.0])
    assert {tuple(trial.params.values()) for trial in trials} == set(itertools.product(range(1, 5), "abc"))
    assert set(study.ask(space).params) == {"n", "kind"}


def test_parallel_asks_spread_out() -> None:
    study = study_of(ScalarizedSampler(0, STARTUP))
    study.add_trials(history(12))
    points = np.array([[study.ask(SPACE).params[name] for name in ("where", "more", "near")] for _ in range(5)])
    distances = [np.linalg.norm(one - other) for one, other in itertools.combinations(points, 2)]
    assert min(distances) > 1e-3


def test_failed_and_pruned_trials_are_ignored() -> None:
    trials = history(12)
    lost = [
        create_trial(state=state, params=trial.params, distributions=SPACE)
        for state in (TrialState.FAIL, TrialState.PRUNED)
        for trial in history(2, seed=9)
    ]
    with_lost, without = study_of(ScalarizedSampler(0, STARTUP)), study_of(ScalarizedSampler(0, STARTUP))
    with_lost.add_trials([*trials, *lost])
    without.add_trials([*trials, *(create_trial(state=TrialState.FAIL) for _ in lost)])
    assert with_lost.ask(SPACE).params == without.ask(SPACE).params


@pytest.mark.parametrize("limit", [0.3, 0.02])
def test_constraints_steer_towards_where_they_hold(limit: float) -> None:
    def share_that_holds(sampler: BaseSampler) -> float:
        study = study_of(sampler, ["minimize", "minimize"])
        holds = []
        for _ in range(25):
            trial = study.ask({"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)})
            x, y = trial.params["x"], trial.params["y"]
            trial.set_constraint("x", x * x - limit**2)
            holds.append(x <= limit)
            study.tell(trial, [1 - x, y])  # the best losses are where the constraint does not hold
        return float(np.mean(holds[STARTUP:]))

    random = np.mean([share_that_holds(RandomSampler(seed=seed)) for seed in range(2)])
    ours = np.mean([share_that_holds(ScalarizedSampler(seed, STARTUP)) for seed in range(2)])
    assert ours > random + 0.3


def test_a_constraint_that_not_all_trials_tell_or_that_is_infinite_does_no_harm() -> None:
    study = study_of(ScalarizedSampler(0, 2), ["minimize", "minimize"])
    for number in range(6):
        trial = study.ask(SPACE)
        if number % 2:
            trial.set_constraint("cost", float("inf") if number == 1 else number - 4)
        study.tell(trial, [float(number), -float(number)])


@pytest.mark.parametrize("values", [[1.0, 1.0], [0.0, 0.0], [1e12, 1e12], [float("inf"), 1.0], [float("-inf")] * 2])
def test_equal_and_infinite_values_of_an_objective_do_no_harm(values: list[float]) -> None:
    study = study_of(ScalarizedSampler(0, 2), ["minimize"] * 3)
    for number in range(6):
        trial = study.ask(SPACE)
        study.tell(trial, [*values, trial.params["near"] if number else float("inf")])


def test_parameters_that_come_and_go_are_drawn_at_random() -> None:
    study = study_of(ScalarizedSampler(0, 2), ["minimize", "minimize"])
    for number in range(6):
        trial = study.ask()
        x = trial.suggest_float("x", 0, 1)
        depth = trial.suggest_int("depth", 1, 5) if number % 2 else 0
        assert 0 <= depth <= 5
        study.tell(trial, [x, 1 - x])


def test_infinite_losses_become_the_worst_finite_one() -> None:
    losses = np.array([[np.inf, np.inf, 1.0], [2.0, -np.inf, -np.inf], [1.0, np.inf, 3.0]])
    assert clip_infinite(losses).tolist() == [[2.0, 0.0, 1.0], [2.0, 0.0, 1.0], [1.0, 0.0, 3.0]]
