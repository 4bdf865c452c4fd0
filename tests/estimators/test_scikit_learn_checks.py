"""The estimators pass scikit-learn's own checks; every exception is listed here with its reason."""

from collections.abc import Callable

from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

from sae.estimators import SAEClassifier, SAERegressor
from sae.estimators.base import SaeEstimator

EXPECTED_TO_FAIL: dict[str, str] = {}
"""By the name of a check, why an estimator fails it: none does."""


def expected_to_fail(estimator: BaseEstimator) -> dict[str, str]:
    return EXPECTED_TO_FAIL


def small(kind: type[SaeEstimator]) -> SaeEstimator:
    """An estimator that is fitted in a moment: the checks fit hundreds of times."""
    return kind(epochs=10, depth=2, random_state=0)


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [small(SAEClassifier), small(SAERegressor)], expected_failed_checks=expected_to_fail
)
def test_scikit_learns_checks_pass(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    check(estimator)
