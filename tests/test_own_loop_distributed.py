"""The gradients of two processes, each with its share of a batch, beside those of one process.

A process mixes inputs, normalises and averages within its share, so three things are compared: a setting in which
nothing depends on the share, which must give the gradient of the whole batch; the same with exits that are drawn; and
the usual setting, which must give the mean of the gradients of the shares.
"""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, distributed
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from sae import Classification, SingleArchitectureEnsemble

PROCESSES, SIZE = 2, 8
Gradients = dict[str, Tensor]
SAME_SAMPLE = {"repeat_fraction": {"start": 1.0, "end": 1.0}}
CASES: dict[str, dict[str, Any]] = {
    "fixed_exits": {"backbone": "vit", "learn_exits": False, **SAME_SAMPLE},
    "drawn_exits": {"backbone": "vit", "batch_repetition": 2, **SAME_SAMPLE},
    "mixed_inputs_and_batch_norm": {"backbone": "vgg"},
}


def build(backbone: str, **settings: Any) -> SingleArchitectureEnsemble:
    sizes = {"name": backbone, "depth": 2}
    return SingleArchitectureEnsemble(sizes, Classification(3), 2, 2, shape=(1, 8, 8), **settings)


def batch() -> tuple[Tensor, Tensor]:
    return torch.randn(SIZE, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(SIZE) % 3


def shares() -> list[tuple[Tensor, Tensor]]:
    x, y = batch()
    return list(zip(x.chunk(PROCESSES), y.chunk(PROCESSES), strict=True))


def gradients(model: SingleArchitectureEnsemble) -> Gradients:
    return {name: value.grad for name, value in model.named_parameters() if value.grad is not None}


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    distributed.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=PROCESSES)
    for name, settings in CASES.items():
        model = build(**settings)
        parallel = DistributedDataParallel(model)  # kept: what averages gradients goes with it
        parallel(*shares()[rank], 0.25).backward()
        save_file(gradients(model), f"{folder}/{name}-{rank}")
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Gradients]:
    """The gradients of two processes by case; both hold the same."""
    folder = tmp_path_factory.mktemp("processes")
    spawn(work, (str(folder),), PROCESSES)
    for name in CASES:
        one, other = (load_file(folder / f"{name}-{rank}") for rank in range(PROCESSES))
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    return {name: load_file(Path(folder) / f"{name}-0") for name in CASES}


def gradients_alone(settings: dict[str, Any], x: Tensor, y: Tensor) -> Gradients:
    model = build(**settings)
    model.loss(x, y, 0.25).backward()
    return gradients(model)


@pytest.mark.slow
def test_where_nothing_depends_on_the_share_it_is_the_gradient_of_the_batch(
    found: dict[str, Gradients],
) -> None:
    expected = gradients_alone(CASES["fixed_exits"], *batch())
    torch.testing.assert_close(found["fixed_exits"], expected, rtol=1e-4, atol=1e-7)


@pytest.mark.slow
def test_with_the_same_exits_drawn_it_is_the_gradient_of_the_batch(found: dict[str, Gradients]) -> None:
    """A share that is repeated twice has as many positions as the whole batch once, so both draw the same exits."""
    expected = gradients_alone(CASES["drawn_exits"] | {"batch_repetition": 1}, *batch())
    assert any(name.endswith("logits") for name in expected)
    torch.testing.assert_close(found["drawn_exits"], expected, rtol=1e-4, atol=1e-7)


@pytest.mark.slow
def test_in_general_it_is_the_mean_of_the_gradients_of_the_shares(found: dict[str, Gradients]) -> None:
    case = "mixed_inputs_and_batch_norm"
    apart = [gradients_alone(CASES[case], *share) for share in shares()]
    expected = {name: torch.stack([part[name] for part in apart]).mean(dim=0) for name in apart[0]}
    torch.testing.assert_close(found[case], expected, rtol=1e-4, atol=1e-7)
    whole = gradients_alone(CASES[case], *batch())
    assert any(not torch.allclose(found[case][name], value, rtol=1e-2) for name, value in whole.items())
