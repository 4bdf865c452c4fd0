"""Samples leave early, and later segments really never see them."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from sae.core.errors import ConfigError, ParityError
from sae.deploy.evaluation import check_segments
from sae.deploy.graph import without_frame
from sae.deploy.segments import Segment, SegmentedNetwork, Segments, cut
from sae.deploy.session import NEVER, SegmentSessions, Session, open_segments
from sae.methods import Method
from tests.builders import SMALL_BACKBONES
from tests.deploy.models import digit_values, digits, digits_for, exported, stirred_method

pytestmark = pytest.mark.long

Choice = Callable[[SegmentSessions, np.ndarray], float]


@pytest.fixture(scope="module")
def method() -> Method:
    return stirred_method("sae", "fc", digits())


@pytest.fixture(scope="module")
def plain(method: Method) -> Session:
    return exported(method, digits(), 3)[1]


@pytest.fixture(scope="module")
def segments(method: Method, plain: Session) -> Segments:
    return cut(method.pruned(3), digits(), plain)


@pytest.fixture
def sessions(segments: Segments) -> SegmentSessions:
    """Fresh sessions, so that rows are counted from 0."""
    return open_segments(segments.contents, segments.network.seen)


@pytest.fixture
def samples() -> np.ndarray:
    dataset = digits()
    return without_frame(dataset.test.inputs[:70], dataset.frame)


def confident_third(sessions: SegmentSessions, samples: np.ndarray) -> float:
    """A threshold that about a third of the samples pass at the first exit."""
    return float(np.quantile(sessions.trace(samples)[0].max(axis=1), 0.66))


def one_by_one(network: SegmentedNetwork, sample: np.ndarray, threshold: float) -> tuple[int, np.ndarray]:
    """Another road: one sample through the definition, in float64 numpy."""
    x, probs, weight = torch.from_numpy(sample[None]), np.zeros(1), 0.0
    for number, segment in enumerate(network.segments):
        assert isinstance(segment, Segment)
        with torch.no_grad():
            *features, _ = segment(x)
            after = segment.layers(x)
            members = segment.exit(after)[0].double().softmax(-1).numpy()
        for member, theta in zip(members, segment.weights.double().tolist(), strict=True):
            probs, weight = probs + theta * member, weight + theta
        if (probs / weight).max() >= threshold or not features:
            return number, probs / weight
        x = features[0]
    raise AssertionError


def test_segments_that_no_sample_leaves_are_the_plain_graph(
    sessions: SegmentSessions, plain: Session, samples: np.ndarray
) -> None:
    (found, left), wanted = sessions.run(samples), plain.run(samples)
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, atol=1e-6, err_msg=name)
    assert set(left) == {len(sessions.segments) - 1}


@pytest.mark.parametrize("threshold", [0.3, 0.6, 0.9, 1.0, 1.5])
def test_each_sample_leaves_by_the_definition(segments: Segments, samples: np.ndarray, threshold: float) -> None:
    sessions = open_segments(segments.contents, segments.network.seen)
    sessions.threshold = threshold
    found, left = sessions.run(samples)
    for row, sample in enumerate(samples):
        segment, probs = one_by_one(segments.network, sample, threshold)
        assert left[row] == segment
        np.testing.assert_allclose(found["probs"][row], probs, atol=1e-5)


def test_a_segment_computes_only_the_rows_that_stayed(sessions: SegmentSessions, samples: np.ndarray) -> None:
    threshold = confident_third(sessions, samples)
    before = sessions.rows
    sessions.threshold = threshold
    _, left = sessions.run(samples)
    computed = tuple(after - earlier for after, earlier in zip(sessions.rows, before, strict=True))
    assert computed == tuple(int((left >= number).sum()) for number in range(len(sessions.segments)))
    assert 0 < computed[1] < len(samples)


def test_masking_after_all_segments_would_be_noticed(sessions: SegmentSessions, samples: np.ndarray) -> None:
    sessions.trace(samples)  # what a mask would do: compute all exits, choose afterwards
    assert sessions.rows == (len(samples),) * len(sessions.segments)


def test_if_all_samples_leave_later_segments_do_not_run(sessions: SegmentSessions, samples: np.ndarray) -> None:
    sessions.threshold = 0.0
    assert set(sessions.run(samples)[1]) == {0}
    assert sessions.rows == (len(samples), *[0] * (len(sessions.segments) - 1))


def test_a_sample_leaves_alone_as_it_does_in_a_batch(sessions: SegmentSessions, samples: np.ndarray) -> None:
    sessions.threshold = confident_third(sessions, samples)
    together, left = sessions.run(samples)
    for row in range(0, 20):
        alone, left_alone = sessions.run(samples[row : row + 1])
        assert left_alone[0] == left[row]
        np.testing.assert_allclose(alone["probs"][0], together["probs"][row], atol=1e-6)


def test_of_no_samples_nothing_is_computed(sessions: SegmentSessions, samples: np.ndarray) -> None:
    found, left = sessions.run(samples[:0])
    assert found["probs"].shape == (0, 10)
    assert [len(found["entropy"]), len(found["disagreement"]), len(left)] == [0, 0, 0]
    assert sum(sessions.rows) == 0


def test_more_than_a_chunk_is_the_same(sessions: SegmentSessions, samples: np.ndarray) -> None:
    sessions.threshold = confident_third(sessions, samples)
    many = np.concatenate([samples] * 5)
    np.testing.assert_array_equal(sessions.run(many)[1], np.tile(sessions.run(samples)[1], 5))


@pytest.mark.parametrize("choose", [lambda *_: 0.0, confident_third, lambda *_: NEVER])
def test_torch_leaves_where_onnx_does(
    segments: Segments,
    sessions: SegmentSessions,
    samples: np.ndarray,
    choose: Callable[[SegmentSessions, np.ndarray], float],
) -> None:
    sessions.threshold = choose(sessions, samples)
    found, left_in_onnx = sessions.run(samples)
    with torch.inference_mode():
        probs, left = segments.network(torch.from_numpy(samples), sessions.threshold)
    np.testing.assert_array_equal(left.numpy(), left_in_onnx)
    np.testing.assert_allclose(probs.numpy(), found["probs"], atol=1e-5)


def test_the_last_segment_costs_what_the_plain_graph_costs(segments: Segments, method: Method) -> None:
    from sae.measure.cost import measure_shipped_cost

    assert segments.network.flops[-1] == measure_shipped_cost(method.pruned(3), digits().spec.shape).flops
    assert list(segments.network.flops) == sorted(set(segments.network.flops))
    assert segments.network.seen[-1] == pytest.approx(1.0)


def test_segments_that_predict_something_else_are_refused(segments: Segments, plain: Session) -> None:
    wrong = open_segments(segments.contents, [0.9 * seen for seen in segments.network.seen])
    with pytest.raises(ParityError, match="the segments must predict what the plain graph predicts"):
        check_segments(wrong, plain, digits())


def test_one_used_exit_has_nothing_to_adapt(method: Method) -> None:
    from sae.methods.sae import Sae

    assert isinstance(method, Sae)
    with pytest.raises(ConfigError, match="uses only exit 3: raise --eval-exits"):
        SegmentedNetwork(method.pruned_to([0, 0, 2]), digits())


def test_values_have_no_adaptive_exits() -> None:
    dataset = digit_values()
    with pytest.raises(ConfigError, match="adaptive exits are for classification"):
        SegmentedNetwork(stirred_method("sae", "fc", dataset).pruned(), dataset)


def test_methods_with_one_exit_are_refused() -> None:
    with pytest.raises(ConfigError, match="but this method has one, the last"):
        SegmentedNetwork(stirred_method("standard", "fc", digits()).pruned(), digits())


@pytest.mark.slow
@pytest.mark.parametrize("backbone", SMALL_BACKBONES)
def test_every_backbone_is_cut_without_a_trace(backbone: str) -> None:
    dataset = digits_for(backbone)
    samples = without_frame(dataset.test.inputs[:70], dataset.frame)
    method = stirred_method("sae", backbone, dataset)
    plain = exported(method, dataset, method.depth)[1]
    segments = cut(method.pruned(method.depth), dataset, plain)
    assert segments.largest_difference <= 1e-5
    sessions = segments.sessions
    sessions.threshold = confident_third(sessions, samples)
    with torch.inference_mode():
        _, left = segments.network(torch.from_numpy(samples), sessions.threshold)
    np.testing.assert_array_equal(sessions.run(samples)[1], left.numpy())
