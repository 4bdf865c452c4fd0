"""Every method as a real ONNX graph in a real onnxruntime."""

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from sae.core.errors import ParityError
from sae.core.task import DataSpec, Regression, Shape
from sae.deploy.evaluation import TOLERANCE, check_parity
from sae.measure.cost import measure_cost, measure_shipped_cost
from sae.methods import Method
from tests.builders import SMALL_BACKBONES, SMALL_METHODS
from tests.deploy.models import as_values, digit_values, digits, digits_for, exported, stirred_method

pytestmark = pytest.mark.long

QUICK = {("sae", "fc"), ("batch_ensemble", "vgg"), ("sae", "conv1d"), ("packed", "fc")}
CASES = [
    pytest.param(name, backbone, marks=() if (name, backbone) in QUICK else pytest.mark.slow)
    for name in SMALL_METHODS
    for backbone in SMALL_BACKBONES
]
FEW = 48
"""Numbers beside the weights: normalisation, member weights and small constants."""


def num_floats(content: bytes) -> int:
    initializers = onnx.load_from_string(content).graph.initializer
    return sum(int(np.prod(i.dims)) for i in initializers if i.data_type == onnx.TensorProto.FLOAT)


def num_constants(method: Method, shape: Shape) -> int:
    """Masks that are fixed, and statistics of a BatchNorm that does not follow a layer directly."""
    folded = method.pruned().folded(shape)
    if any("mask" in name for name, _ in folded.named_buffers()):
        return sum(buffer.numel() for name, buffer in folded.named_buffers() if name.endswith("mask"))
    has_factors = any(name.endswith(".r") for name, _ in folded.named_parameters())
    return sum(b.numel() for name, b in folded.named_buffers() if "running" in name) if has_factors else 0


@pytest.mark.parametrize(("name", "backbone"), CASES)
def test_a_graph_predicts_what_the_run_predicts_and_holds_what_it_costs(name: str, backbone: str) -> None:
    dataset = digits_for(backbone)
    method = stirred_method(name, backbone, dataset)
    content, session = exported(method, dataset)
    parity = check_parity(session, method, dataset, method.exits)
    assert parity.largest_difference <= TOLERANCE
    shipped = measure_shipped_cost(method.pruned(), dataset.spec.shape)
    assert 0 <= num_floats(content) - shipped.params - num_constants(method, dataset.spec.shape) <= FEW


@pytest.mark.parametrize(
    "backbone", [pytest.param(b, marks=() if b == "vgg" else pytest.mark.slow) for b in SMALL_BACKBONES]
)
def test_a_regression_comes_in_its_own_units(backbone: str) -> None:
    """Inside is a `mean` of positions or tokens, which must not be taken for the output of that name."""
    dataset = as_values(digits_for(backbone))
    method = stirred_method("sae", backbone, dataset)
    _, session = exported(method, dataset)
    check_parity(session, method, dataset, method.exits)
    outputs = session.run(dataset.test.inputs[:9])
    assert set(outputs) == {"mean", "variance", "entropy", "disagreement"}
    assert 0 < outputs["mean"].mean() < 2000
    assert (outputs["variance"] > 100).all()


def test_a_large_mean_of_the_targets_does_not_hide_a_difference() -> None:
    values = digit_values()
    dataset = dataclasses.replace(values, spec=DataSpec(values.spec.shape, Regression(mean=1.7e9 + 33, std=287.0)))
    method = stirred_method("standard", "fc", values)
    method.task = dataset.spec.task
    _, session = exported(method, dataset)
    check_parity(session, method, dataset, method.exits)
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.mul_(1.01)
    with pytest.raises(ParityError, match="mean differs by"):
        check_parity(session, method, dataset, method.exits)


@pytest.mark.slow
@pytest.mark.parametrize("eval_exits", [1, 3])
def test_pruned_tensors_are_absent_from_the_file(eval_exits: int) -> None:
    dataset = digits()
    method = stirred_method("sae", "vgg", dataset)
    content, _ = exported(method, dataset, eval_exits)
    pruned = method.pruned(eval_exits)
    assert num_floats(content) < measure_cost(pruned, dataset.spec.shape).params + FEW
    names = " ".join(i.name for i in onnx.load_from_string(content).graph.initializer)
    for index in range(method.depth):
        is_used = method.active_counts(eval_exits)[index] > 0
        assert (f"exits.{index}." in names) == is_used


def test_a_file_says_nothing_of_the_machine_it_was_made_on(digits_model: Path) -> None:
    content = digits_model.read_bytes()
    assert b"site-packages" not in content
    assert b".py" not in content
