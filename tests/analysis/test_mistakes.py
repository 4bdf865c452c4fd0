"""What a network gets wrong, compared with scikit-learn and plain loops."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from sae.analysis.mistakes import Classified, Regressed, quarters


@pytest.fixture
def found() -> Classified:
    rng = np.random.default_rng(0)
    return Classified(rng.dirichlet(np.ones(4), size=300), rng.integers(0, 4, 300))


def test_classes_and_confusions_are_those_of_scikit_learn(found: Classified) -> None:
    guess = found.probabilities.argmax(axis=1)
    np.testing.assert_array_equal(found.confusion(), confusion_matrix(found.targets, guess))
    precision, recall, f1, samples = precision_recall_fscore_support(found.targets, guess)
    by_class = found.by_class()
    assert [one.samples for one in by_class] == samples.tolist()
    for values, name in ((precision, "precision"), (recall, "recall"), (f1, "f1")):
        assert [getattr(one, name) for one in by_class] == pytest.approx(values.tolist())


def test_the_most_confident_errors_are_those_of_a_loop(found: Classified) -> None:
    wrong = [
        (-max(chances), index)
        for index, (chances, target) in enumerate(zip(found.probabilities, found.targets, strict=True))
        if chances.argmax() != target
    ]
    assert found.confident_errors(7).tolist() == [index for _, index in sorted(wrong)[:7]]
    least = sorted(range(300), key=lambda index: found.probabilities[index].max())
    assert found.least_confident(9).tolist() == least[:9]


def test_what_is_passed_on_and_what_is_answered_are_everything(found: Classified) -> None:
    errors = int((found.probabilities.argmax(axis=1) != found.targets).sum())
    for item in found.abstentions((1.0, 0.9, 0.5)):
        assert item.passed + item.answered == 300
        assert item.passed_errors + item.errors == errors
        assert item.passed == round(300 * (1 - item.coverage))


def test_quarters_hold_every_sample_once() -> None:
    values = np.random.default_rng(1).normal(size=200)
    parts = quarters("age", values)
    assert np.sum([rows for _, rows in parts], axis=0).tolist() == [1] * 200
    assert all(values[rows].max() < values[later].min() for (_, rows), (_, later) in itertools.pairwise(parts))


def test_a_number_that_hardly_varies_gives_no_segments() -> None:
    assert quarters("flag", np.array([0.0] * 90 + [1.0] * 10)) == []


def test_the_error_of_a_class_is_the_share_of_its_samples_that_are_wrong(found: Classified) -> None:
    rows = found.targets == 2
    segment = found.segment("class 2", rows)
    assert segment.error == pytest.approx(1 - found.by_class()[2].recall)
    assert segment.confidence == pytest.approx(found.confidence[rows].mean())


def test_the_largest_surprises_are_far_away_in_predicted_deviations() -> None:
    found = Regressed(np.zeros(4), np.array([1.0, 0.1, 10.0, 1.0]), np.array([2.0, 1.0, 5.0, -3.0]))
    assert found.largest(4).tolist() == [1, 3, 0, 2]
    assert found.surprise.tolist() == pytest.approx([2.0, 10.0, 0.5, -3.0])
