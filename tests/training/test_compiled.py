"""Training through `torch.compile`: the same numbers, and never something else in silence."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sae.config.methods import METHODS
from sae.config.settings import to_yaml
from sae.core.errors import ConfigError
from sae.core.task import Classification
from sae.ensemble.network import MultiExitNetwork
from sae.records.run import RunRecord
from sae.training.evaluator import member_outputs
from sae.training.run import train
from sae.training.trainer import Trainer
from tests.builders import SMALL_METHODS, blobs, run_config, small_method
from tests.cli.test_cli import sae

COMPILED = [entry.name for entry in METHODS if entry.settings.can_compile]
OTHERS = [entry.name for entry in METHODS if not entry.settings.can_compile]

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++"))), reason="torch.compile needs a C++ compiler, such as g++"
)
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")  # inside torch.compile


def trainer_of(name: str, **settings: Any) -> Trainer:
    dataset = blobs(Classification(3), num_samples=32)
    config = run_config(method=SMALL_METHODS[name], train={"epochs": 2, "batch_size": 16, **settings})
    return Trainer(small_method(name, "fc"), dataset, config)


@pytest.mark.parametrize("name", COMPILED)
def test_what_training_calls_is_compiled_and_nothing_else(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def compiled(forward: Callable[[Tensor], Tensor], **options: object) -> Callable[[Tensor], Tensor]:
        assert options == {"fullgraph": True, "dynamic": False}

        def call(x: Tensor) -> Tensor:
            calls.append(len(x))
            return forward(x)

        return call

    eager = trainer_of(name)
    monkeypatch.setattr(torch, "compile", compiled)
    trainer = trainer_of(name, compile=True)
    assert trainer.train_epoch(0) == eager.train_epoch(0)
    assert len(calls) == trainer.steps_per_epoch * trainer.method.num_streams
    found, expected = (member_outputs(one.method, [one.prepare(one.dataset.val.inputs[:])]) for one in (trainer, eager))
    assert torch.equal(found, expected)
    assert len(calls) == trainer.steps_per_epoch * trainer.method.num_streams, "predictions are not compiled"
    assert all("forward" not in vars(module) for module in trainer.method.modules())


@pytest.mark.parametrize("name", OTHERS)
def test_a_method_that_cannot_be_compiled_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"compile must be false for {name}, got true: "):
        run_config(method=SMALL_METHODS[name], train={"compile": True})


def test_settings_are_written_as_before_unless_it_is_set() -> None:
    assert "compile" not in to_yaml(run_config())
    assert "compile: true" in to_yaml(run_config(train={"compile": True}))


def test_a_network_that_cannot_be_compiled_is_refused_before_the_first_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = MultiExitNetwork.forward

    def breaks_off(self: MultiExitNetwork, x: Tensor) -> Tensor:
        torch._dynamo.graph_break()  # as at any call that no graph can hold; by default the rest would run uncompiled
        return forward(self, x)

    monkeypatch.setattr(MultiExitNetwork, "forward", breaks_off)
    words = ("train", "--data", "digits", "--epochs", "1", "--set", "train.compile=true")
    code, out, error = sae(*words, "--out", tmp_path / "run")
    assert (code, out) == (2, "")
    assert len(error.strip().splitlines()) == 1
    assert error.startswith("error: train.compile must be false here, because torch.compile failed: ")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@needs_compiler
def test_without_a_compiler_for_its_code_training_is_refused(tmp_path: Path) -> None:
    import torch._inductor.config as inductor

    with (
        inductor.patch({"cpp.cxx": ("no-compiler-of-this-name",), "force_disable_caches": True}),
        pytest.raises(ConfigError, match=r"because torch\.compile failed: "),
    ):
        train(run_config(train={"epochs": 1, "compile": True}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def differentiate(trainer: Trainer) -> None:
    batch = next(trainer.batches(0, 0))
    trainer.method.train().training_loss(batch, 0.0, torch.Generator().manual_seed(0)).total.backward()


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_training_gives_the_numbers_of_an_eager_one(name: str) -> None:
    """Gradients of the same weights, and losses of some epochs; rounding then grows, as between two machines."""
    eager, compiled = trainer_of(name), trainer_of(name, compile=True)
    assert compiled.compiled is not None
    differentiate(eager)
    with compiled.compiled.in_use():
        differentiate(compiled)
    for found, expected in zip(compiled.groups, eager.groups, strict=True):
        torch.testing.assert_close(found.gradient, expected.gradient, atol=1e-4, rtol=0)
    for epoch in range(2):
        assert compiled.train_epoch(epoch) == pytest.approx(eager.train_epoch(epoch), abs=1e-4)


@pytest.mark.slow
@needs_compiler
def test_a_compiled_run_that_was_interrupted_continues_to_the_same_bytes(tmp_path: Path) -> None:
    """With averaged weights and a teacher, and beside an eager run, from which it hardly differs."""
    train(run_config(method={"name": "standard"}, train={"epochs": 1}), tmp_path / "teacher")
    settings: dict[str, Any] = {"backbone": {"name": "fc", "depth": 1}, "teacher": {"run": str(tmp_path / "teacher")}}
    method = {"name": "sae", "exits": 1}
    eager = run_config(**settings, method=method, train={"epochs": 2, "ema": 0.9})
    config = run_config(**settings, method=method, train={"epochs": 2, "ema": 0.9, "compile": True})
    train(config, tmp_path / "whole")
    train(config, tmp_path / "cut", until=1)
    torch.compiler.reset()  # as in a new process
    train(config, tmp_path / "cut")
    for name in ("metrics.json", "history.csv", "model.safetensors"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    train(eager, tmp_path / "eager")
    found, expected = (RunRecord(tmp_path / run).read_history() for run in ("whole", "eager"))
    assert [row["loss"] for row in found] == pytest.approx([row["loss"] for row in expected], rel=1e-3)
    assert RunRecord(tmp_path / "whole").read_config().train.compile
