from collections.abc import Sequence

import numpy as np
import pytest

from sae.config.run import RunConfig
from sae.core.errors import ConfigError
from sae.core.objectives import Limit, limits
from sae.core.task import Classification, DataSpec
from sae.search import screening
from sae.search.screening import passes, rungs
from sae.search.space import build_space
from tests.search.studies import DIGITS

SPEC = DataSpec((1, 16, 16), Classification(10))


def test_the_first_structure_within_the_limits_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    space = build_space("standard", DIGITS, {}, {})
    assert 1 < space.size < screening.MOST_REFUSED
    seen: list[RunConfig] = []
    broken_limit = screening.broken_limit

    def note(limits: Sequence[Limit], config: RunConfig, spec: DataSpec) -> str | None:
        seen.append(config)
        return broken_limit(limits, config, spec)

    monkeypatch.setattr(screening, "broken_limit", note)
    screening.check_reach([space], limits({"flops": 1e12}, {}, "classification"), SPEC)
    assert len(seen) == 1


def test_a_space_without_any_structure_within_the_limits_is_refused() -> None:
    space = build_space("standard", DIGITS, {}, {})
    with pytest.raises(ConfigError, match=r"limits must leave standard something to try: flops ≤ 1, but"):
        screening.check_reach([space], limits({"flops": 1}, {}, "classification"), SPEC)


def test_a_rival_may_be_out_of_reach_of_limits_that_bind_the_pick() -> None:
    spaces = [build_space(name, DIGITS, {}, {}) for name in ("sae", "ensemble")]
    screening.check_reach(spaces, limits({"flops": 2e5}, {}, "classification"), SPEC)
    assert screening.screened(["sae", "ensemble", "standard", "mc_dropout"]) == {"sae", "mc_dropout"}
    assert screening.screened(["ensemble", "standard"]) == {"ensemble", "standard"}


@pytest.mark.parametrize(
    ("epochs", "reduction", "expected"),
    [(50, 3, (6, 17)), (9, 3, (1, 3)), (4, 2, (1, 2)), (2, 3, (1,)), (1, 3, ()), (2, 2, (1,))],
)
def test_rungs_are_a_reduction_apart_and_before_the_end(epochs: int, reduction: int, expected: tuple[int, ...]) -> None:
    assert rungs(epochs, reduction) == expected


def test_the_first_few_pass_whatever_they_are_worth() -> None:
    losses = np.array([[0.0, 0.0], [9.0, 9.0]])
    assert passes(losses[:1], 3)
    assert passes(losses, 3)


def test_a_dominated_trial_is_stopped() -> None:
    losses = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5], [2.0, 2.0]])
    assert not passes(losses, 3)


def test_an_extreme_of_the_front_passes() -> None:
    crowd = [[0.5, 0.50], [0.51, 0.49], [0.52, 0.48], [0.49, 0.51], [0.48, 0.52]]
    assert passes(np.array([*crowd, [0.0, 1.0]]), 3)


def test_the_only_one_that_beats_all_others_passes() -> None:
    assert passes(np.array([[1.0, 1.0]] * 8 + [[0.0, 0.0]]), 3)


def test_a_trial_without_finite_losses_is_stopped() -> None:
    assert not passes(np.array([[0.0, 1.0], [1.0, 0.0], [np.nan, 0.0]]), 3)
    assert passes(np.array([[np.nan, 0.0], [np.nan, 0.0], [0.5, 0.5]]), 3)


def test_about_one_of_so_many_passes() -> None:
    rng = np.random.default_rng(0)
    losses = rng.random((90, 2))
    passed = sum(passes(losses[: count + 1], 3) for count in range(90))
    assert 15 <= passed <= 45
