"""Samples leave early, and later stages really never see them."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from sae.core.errors import ConfigError, ParityError
from sae.deploy.evaluation import check_stages
from sae.deploy.graph import without_frame
from sae.deploy.segments import Segment, StagedNetwork, Stages, cut, staged_sessions
from sae.deploy.session import NEVER, Session, Staged
from sae.methods import Method
from tests.builders import SMALL_BACKBONES
from tests.deploy.models import digit_values, digits, exported, stirred_method


@pytest.fixture(scope="module")
def method() -> Method:
    return stirred_method("sae", "fc", digits())


@pytest.fixture(scope="module")
def plain(method: Method) -> Session:
    return exported(method, digits(), 3)[1]


@pytest.fixture(scope="module")
def stages(method: Method, plain: Session) -> Stages:
    return cut(method.pruned(3), digits(), plain)


@pytest.fixture
def staged(stages: Stages) -> Staged:
    """Fresh sessions, so that rows are counted from 0."""
    return staged_sessions(stages.contents, stages.network.seen)


@pytest.fixture
def samples() -> np.ndarray:
    dataset = digits()
    return without_frame(dataset.test.inputs[:70], dataset.frame)


def confident_third(staged: Staged, samples: np.ndarray) -> float:
    """A threshold that about a third of the samples pass at the first exit."""
    return float(np.quantile(staged.trace(samples)[0].max(axis=1), 0.66))


def one_by_one(network: StagedNetwork, sample: np.ndarray, threshold: float) -> tuple[int, np.ndarray]:
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


def test_stages_that_nobody_leaves_are_the_plain_graph(staged: Staged, plain: Session, samples: np.ndarray) -> None:
    found, wanted = staged.run(samples), plain.run(samples)
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, atol=1e-6, err_msg=name)
    assert set(found["stage"]) == {len(staged.stages) - 1}


@pytest.mark.parametrize("threshold", [0.3, 0.6, 0.9, 1.0, 1.5])
def test_each_sample_leaves_by_the_definition(stages: Stages, samples: np.ndarray, threshold: float) -> None:
    staged = staged_sessions(stages.contents, stages.network.seen)
    staged.threshold = threshold
    found = staged.run(samples)
    for row, sample in enumerate(samples):
        stage, probs = one_by_one(stages.network, sample, threshold)
        assert found["stage"][row] == stage
        np.testing.assert_allclose(found["probs"][row], probs, atol=1e-5)


def test_a_stage_computes_only_the_rows_that_stayed(staged: Staged, samples: np.ndarray) -> None:
    threshold = confident_third(staged, samples)
    before = staged.rows
    staged.threshold = threshold
    left = staged.run(samples)["stage"]
    computed = tuple(after - earlier for after, earlier in zip(staged.rows, before, strict=True))
    assert computed == tuple(int((left >= number).sum()) for number in range(len(staged.stages)))
    assert 0 < computed[1] < len(samples)


def test_masking_after_all_stages_would_be_noticed(staged: Staged, samples: np.ndarray) -> None:
    staged.trace(samples)  # what a mask would do: compute all exits, choose afterwards
    assert staged.rows == (len(samples),) * len(staged.stages)


def test_where_everyone_leaves_later_stages_do_not_run(staged: Staged, samples: np.ndarray) -> None:
    staged.threshold = 0.0
    assert set(staged.run(samples)["stage"]) == {0}
    assert staged.rows == (len(samples), *[0] * (len(staged.stages) - 1))


def test_a_sample_leaves_alone_as_it_does_in_a_batch(staged: Staged, samples: np.ndarray) -> None:
    staged.threshold = confident_third(staged, samples)
    together = staged.run(samples)
    for row in range(0, 20):
        alone = staged.run(samples[row : row + 1])
        assert alone["stage"][0] == together["stage"][row]
        np.testing.assert_allclose(alone["probs"][0], together["probs"][row], atol=1e-6)


def test_of_no_samples_nothing_is_computed(staged: Staged, samples: np.ndarray) -> None:
    found = staged.run(samples[:0])
    assert found["probs"].shape == (0, 10)
    assert [len(found[name]) for name in ("entropy", "disagreement", "stage")] == [0, 0, 0]
    assert sum(staged.rows) == 0


def test_more_than_a_chunk_is_the_same(staged: Staged, samples: np.ndarray) -> None:
    staged.threshold = confident_third(staged, samples)
    many = np.concatenate([samples] * 5)
    np.testing.assert_array_equal(staged.run(many)["stage"], np.tile(staged.run(samples)["stage"], 5))


@pytest.mark.parametrize("choose", [lambda *_: 0.0, confident_third, lambda *_: NEVER])
def test_torch_leaves_where_onnx_does(
    stages: Stages, staged: Staged, samples: np.ndarray, choose: Callable[[Staged, np.ndarray], float]
) -> None:
    staged.threshold = choose(staged, samples)
    found = staged.run(samples)
    with torch.inference_mode():
        probs, left = stages.network(torch.from_numpy(samples), staged.threshold)
    np.testing.assert_array_equal(left.numpy(), found["stage"])
    np.testing.assert_allclose(probs.numpy(), found["probs"], atol=1e-5)


def test_the_last_stage_costs_what_the_plain_graph_costs(stages: Stages, method: Method) -> None:
    from sae.measure.cost import measure_shipped_cost

    assert stages.network.flops[-1] == measure_shipped_cost(method.pruned(3), digits().spec.shape).flops
    assert list(stages.network.flops) == sorted(set(stages.network.flops))
    assert stages.network.seen[-1] == pytest.approx(1.0)


def test_stages_that_say_something_else_are_refused(stages: Stages, plain: Session) -> None:
    wrong = staged_sessions(stages.contents, [0.9 * seen for seen in stages.network.seen])
    with pytest.raises(ParityError, match="the stages must predict what the plain graph predicts"):
        check_stages(wrong, plain, digits())


def test_one_used_exit_has_nothing_to_adapt(method: Method) -> None:
    from sae.methods.sae import Sae

    assert isinstance(method, Sae)
    with pytest.raises(ConfigError, match="uses exit 3 alone, so that there is nothing to adapt"):
        StagedNetwork(method.pruned_to([0, 0, 2]), digits())


def test_values_have_no_adaptive_exits() -> None:
    dataset = digit_values()
    with pytest.raises(ConfigError, match="adaptive exits are for classification"):
        StagedNetwork(stirred_method("sae", "fc", dataset).pruned(), dataset)


def test_methods_with_one_exit_are_refused() -> None:
    with pytest.raises(ConfigError, match="however this method has one, the last"):
        StagedNetwork(stirred_method("standard", "fc", digits()).pruned(), digits())


@pytest.mark.slow
@pytest.mark.parametrize("backbone", SMALL_BACKBONES)
def test_every_backbone_is_cut_without_a_trace(backbone: str, samples: np.ndarray) -> None:
    dataset = digits()
    method = stirred_method("sae", backbone, dataset)
    plain = exported(method, dataset, method.depth)[1]
    stages = cut(method.pruned(method.depth), dataset, plain)
    assert stages.largest_difference <= 1e-5
    staged = stages.staged
    staged.threshold = confident_third(staged, samples)
    with torch.inference_mode():
        _, left = stages.network(torch.from_numpy(samples), staged.threshold)
    np.testing.assert_array_equal(staged.run(samples)["stage"], left.numpy())
