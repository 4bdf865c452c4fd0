import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from sae.config.run import RunConfig
from sae.core.errors import ConfigError
from sae.data.catalogue import load
from sae.methods import build_method
from sae.training.kept_weights import WeightAverage
from sae.training.parallel import load_stream, stream_state
from sae.training.run import derive, restore, train
from sae.training.trainer import Trainer
from tests.builders import run_config
from tests.training.interruptions import interrupt, results

EPOCHS = 3


def config_of(method: str = "standard", ema: float = 0.9, **more: Any) -> RunConfig:
    training = {"epochs": EPOCHS, "lr": 1e-2, "ema": ema, **more.pop("train", {})}
    return run_config(data={"name": "diabetes"}, method={"name": method}, train=training, **more)


def trainer_of(config: RunConfig) -> Trainer:
    dataset = load(config.data)
    return Trainer(build_method(config.method, config.backbone, dataset.spec, config.seed), dataset, config)


def state_of(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in trainer.method.state_dict().items()}


@pytest.mark.parametrize("method", ["standard", "sae", "ensemble", "mc_dropout", "batch_ensemble"])
def test_every_weight_and_statistic_is_averaged_as_a_loop_over_steps_does_it(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, decay = trainer_of(config_of(method, ema=0.8)), 0.8
    expected, steps = state_of(trainer), 0
    step = Trainer._step

    def followed(self: Trainer, *args: Any) -> Any:
        nonlocal steps
        answer = step(self, *args)
        kept = min(decay, (1 + steps) / (10 + steps))
        for name, tensor in self.method.state_dict().items():
            if tensor.is_floating_point():
                expected[name] = kept * expected[name] + (1 - kept) * tensor
        steps += 1
        return answer

    monkeypatch.setattr(Trainer, "_step", followed)
    for epoch in range(EPOCHS):
        trainer.train_epoch(epoch)
    assert steps > 10  # the warm-up is over
    before = state_of(trainer)
    with trainer.averaged():
        inside = state_of(trainer)
    for name, tensor in expected.items():
        if tensor.is_floating_point():
            torch.testing.assert_close(inside[name], tensor)
    assert any("running_var" in name and not torch.equal(before[name], inside[name]) for name in before)
    after = state_of(trainer)
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_the_exit_logits_of_an_sae_are_averaged_too() -> None:
    trainer = trainer_of(config_of("sae"))
    trainer.train_epoch(0)
    before = state_of(trainer)["exits.logits"]
    with trainer.averaged():
        assert not torch.equal(state_of(trainer)["exits.logits"], before)


def test_training_itself_does_not_see_the_average() -> None:
    plain, averaged = (trainer_of(config_of(ema=decay)) for decay in (0.0, 0.99))
    for trainer in (plain, averaged):
        trainer.train_epoch(0)
    assert not plain.averages
    assert all(torch.equal(tensor, state_of(averaged)[name]) for name, tensor in state_of(plain).items())


def test_the_average_is_what_is_judged_and_recorded(tmp_path: Path) -> None:
    config = config_of("sae")
    record = train(config, tmp_path / "run")
    trainer = trainer_of(config)
    for epoch in range(EPOCHS):
        trainer.train_epoch(epoch)
    method, _ = restore(record)
    with trainer.averaged():
        for name, tensor in trainer.method.state_dict().items():
            assert torch.equal(tensor, method.state_dict()[name])
    last = record.read_history()[-1]
    assert last["val_nll"] == pytest.approx(record.read_evaluation().val.chosen.metrics["nll"])
    assert last["theta_0_0"] == pytest.approx(method.observables()["theta_0_0"])


def test_a_paused_run_is_judged_by_its_average(tmp_path: Path) -> None:
    config = config_of()
    record = train(config, tmp_path / "run", until=2)
    assert record.read_interim().val.chosen.metrics["nll"] == pytest.approx(record.read_history()[-1]["val_nll"])
    assert results(train(config, tmp_path / "run")) == results(train(config, tmp_path / "whole"))


@pytest.mark.parametrize("method", ["sae", "ensemble"])
@pytest.mark.parametrize("patience", [0, 2])
def test_a_run_killed_after_any_epoch_continues_to_the_same_bytes(
    method: str, patience: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(method, train={"patience": patience})
    whole = train(config, tmp_path / "whole")
    for epoch in range(1, EPOCHS):
        interrupt(config, tmp_path / "cut", monkeypatch, at=epoch)
    assert results(train(config, tmp_path / "cut")) == results(whole)


def test_a_stream_carries_its_average_to_another_trainer() -> None:
    config = config_of("ensemble")
    one, other = trainer_of(config), trainer_of(config)
    one.train_epoch(0)
    for stream in one.streams:
        load_stream(other, stream, copy.deepcopy(stream_state(one, stream)))  # as through a pipe
    for trainer in (one, other):
        trainer.train_epoch(1)
    with one.averaged(), other.averaged():
        assert all(torch.equal(tensor, state_of(other)[name]) for name, tensor in state_of(one).items())


def test_a_member_of_an_ensemble_has_the_average_of_a_network_trained_alone(tmp_path: Path) -> None:
    ensemble = train(config_of("ensemble"), tmp_path / "ensemble")
    alone = train(config_of(), tmp_path / "alone")
    assert derive(config_of(), tmp_path / "derived", ensemble.path).read_evaluation() == alone.read_evaluation()


@pytest.mark.slow
def test_members_trained_in_two_processes_are_the_same_to_the_byte(tmp_path: Path) -> None:
    config = config_of("ensemble", train={"patience": 2})
    alone = train(config, tmp_path / "alone")
    assert results(train(config, tmp_path / "together", processes=2)) == results(alone)


def test_the_first_weights_are_forgotten_by_the_warm_up() -> None:
    weight = torch.zeros(1)
    average = WeightAverage(0.999, [weight])
    weight.fill_(1.0)
    for step in range(100):
        average.update(step)
    assert average.average[0].item() > 1 - 1e-6
    assert 0.999**100 > 0.9  # what would be left of them without it


def test_a_decay_of_one_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"train\.ema must be less than 1, got 1"):
        config_of(ema=1)


def test_without_an_average_a_config_is_as_before() -> None:
    assert "ema" not in config_of(ema=0.0).model_dump()["train"]
