import numpy as np
import pytest
from sklearn.metrics import precision_score, recall_score

from sae.analysis.decision import Costs, DecisionRule, Scored, best_threshold, decide
from sae.core.errors import ConfigError


def samples(seed: int, decimals: int = 2) -> Scored:
    generator = np.random.default_rng(seed)
    truth = generator.random(80) < 0.3
    return np.clip(0.3 + 0.3 * truth + generator.normal(0, 0.2, 80), 0, 1).round(decimals), truth


def paid(at: Scored, threshold: float, costs: Costs) -> float:
    """The definition, sample by sample."""
    total = 0.0
    for prob, is_positive in zip(*at, strict=True):
        total += costs.fp if prob >= threshold and not is_positive else 0
        total += costs.fn if prob < threshold and is_positive else 0
    return total


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("costs", [Costs(1, 10), Costs(3, 1), Costs(1, 1e6), Costs(1e6, 1)])
def test_no_threshold_is_cheaper_than_the_best(seed: int, costs: Costs) -> None:
    at = samples(seed)
    found = best_threshold(*at, costs)
    assert 0 <= found <= 1
    assert paid(at, found, costs) == min(paid(at, threshold, costs) for threshold in np.linspace(0, 1, 401))


def test_of_equally_cheap_thresholds_it_is_that_of_a_calibrated_network() -> None:
    at = np.array([0.0, 0.2, 0.6, 1.0]), np.array([False, True, False, True])
    assert best_threshold(*at, Costs(1, 1)) == 0.8  # 0.1 costs as much
    assert best_threshold(*at, Costs(1, 3)) == 0.1


def test_a_decision_agrees_with_scikit_learn() -> None:
    probs, truth = at = samples(5)
    found = decide(DecisionRule(0.4, Costs(2, 7)), "yes", at, at)
    assert found.recall == pytest.approx(recall_score(truth, probs >= 0.4))
    assert found.precision == pytest.approx(precision_score(truth, probs >= 0.4))
    assert found.mean_cost == pytest.approx(paid(at, 0.4, Costs(2, 7)) / 80)
    assert not found.is_best


def test_the_threshold_is_chosen_on_validation() -> None:
    val, test, costs = samples(1), samples(2), Costs(1, 4)
    found = decide(DecisionRule(None, costs), "yes", val, test)
    assert found.is_best
    assert found.threshold == best_threshold(*val, costs)
    assert found.mean_cost == pytest.approx(paid(test, found.threshold, costs) / 80)


def test_shares_of_nothing_are_not_defined() -> None:
    at = np.array([0.2, 0.3]), np.array([False, False])
    found = decide(DecisionRule(0.9, None), "yes", at, at)
    assert (found.recall, found.precision, found.mean_cost) == (None, None, None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((1.5, None, None, None), "in \\[0, 1\\], got 1.5"),
        ((None, 1.0, None, None), "given together, got one"),
        ((0.3, 1.0, -1.0, None), "above 0, got 1 and -1"),
        ((None, None, None, "yes"), "--positive must stand beside"),
    ],
)
def test_what_cannot_decide_is_refused(
    given: tuple[float | None, float | None, float | None, str | None], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        DecisionRule.of(*given)


@pytest.mark.parametrize("names", [(), ("a", "b", "c")])
def test_only_two_classes_are_decided_on(names: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="are for two classes, got"):
        DecisionRule(0.3, None).label_in(names)


def test_several_labels_are_not_decided_on() -> None:
    with pytest.raises(ConfigError, match="for one target with two classes, got 3 targets"):
        DecisionRule(0.3, None).label_in(("0", "1"), ("a", "b", "c"))


def test_the_positive_class_is_the_last_or_that_of_the_name() -> None:
    assert DecisionRule(0.3, None).label_in(("no", "yes")) == 1
    assert DecisionRule(0.3, None, "no").label_in(("no", "yes")) == 0
    with pytest.raises(ConfigError, match="did you mean yes"):
        DecisionRule(0.3, None, "yess").label_in(("no", "yes"))
