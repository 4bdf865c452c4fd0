import json
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sae.backbones.dry_run import RESULTS, DryRun, dry_run
from sae.config.methods import METHODS
from tests.builders import SHAPE, SHAPES, small_method


class Comparison(DryRun):
    """A dry run in which torch also works out each result, its own way."""

    def __init__(self) -> None:
        super().__init__()
        self.compared: set[Any] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        found = super().__torch_dispatch__(func, types, args, kwargs)
        expected = func(*args, **(kwargs or {}))
        of_interest = 1 if isinstance(found, tuple) else None  # the others are for training
        for ours, theirs in list(zip(_tensors(found), _tensors(expected), strict=True))[:of_interest]:
            assert ours.shape == theirs.shape, func
            assert ours.dtype == theirs.dtype, func
            assert ours.device == theirs.device, func
        self.compared.add(func)
        return found


def _tensors(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


@pytest.mark.parametrize("backbone", SHAPES)
@pytest.mark.parametrize("name", METHODS.names())
def test_every_operation_gives_what_torch_gives(name: str, backbone: str) -> None:
    comparison = Comparison()
    network, shape = small_method(name, backbone).pruned(), SHAPES[backbone]
    dry_run(network, shape, comparison)
    dry_run(network.folded(shape), shape, comparison)
    assert comparison.compared & set(RESULTS)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(2, 6, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), bias=False),
        nn.Conv2d(2, 6, 1, groups=2),
        nn.ConvTranspose2d(2, 3, 2, stride=2),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.MaxPool2d(3, ceil_mode=True),
        nn.MaxPool2d(3, stride=4, padding=1, ceil_mode=True),
        nn.MaxPool2d(2, stride=5, padding=1, ceil_mode=True),
        nn.MaxPool2d(2, dilation=2),
        nn.Sequential(nn.Flatten(1, 2), nn.Unflatten(1, (4, 4)), nn.Flatten(2), nn.MaxPool1d(3, 2, 1)),
        nn.Sequential(nn.Flatten(), nn.Linear(2 * 8 * 8, 3, bias=False), nn.BatchNorm1d(3), nn.Softmax(dim=1)),
    ],
    ids=str,
)
def test_layers_of_any_geometry_give_what_torch_gives(layer: nn.Module) -> None:
    dry_run(layer, SHAPE, Comparison())


class WithATable(nn.Module):
    """A network that looks up its channels in a table of numbers."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the channels in reverse order."""
        order = torch.tensor([0, 1]) * -1 + 1
        return x[:, order.tolist()]


def test_numbers_that_are_not_on_meta_stay_right() -> None:
    dry_run(WithATable(), SHAPE)


def test_the_network_does_not_change() -> None:
    network = small_method("ensemble", "vgg").pruned()
    network.train()
    list(network.modules())[3].eval()
    modes = [module.training for module in network.modules()]
    before = {name: value.clone() for name, value in network.state_dict().items()}
    dry_run(network, SHAPE)
    assert [module.training for module in network.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


COUNT_AND_TRAIN = """
import contextlib, json, pytest, sys
from pathlib import Path
from sae.measure.cost import measure_shipped_cost
from sae.training.run import train
from tests.builders import SHAPES, SMALL_METHODS, run_config, small_method

def imported():
    return sorted({'torch._dynamo', 'sympy'} & set(sys.modules))

for backbone, shape in SHAPES.items():
    for name in SMALL_METHODS:
        with contextlib.suppress(pytest.skip.Exception):  # of a method on a backbone that it refuses
            measure_shipped_cost(small_method(name, backbone).pruned(), shape)
by_counting = imported()
train(run_config(train={"epochs": 1}), Path(sys.argv[1]))
print(json.dumps({"counting": by_counting, "training": imported()}))
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The large packages that a process has imported after it has counted costs, and after it has trained, too."""
    command = [sys.executable, "-c", COUNT_AND_TRAIN, str(tmp_path_factory.mktemp("imports") / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.long
@pytest.mark.parametrize("work", ["counting", "training"])
def test_neither_counting_nor_training_imports_a_compiler_or_algebra(imported: dict[str, list[str]], work: str) -> None:
    """Their import takes longer than many a short run."""
    assert imported[work] == []
