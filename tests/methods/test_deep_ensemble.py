"""Members of an ensemble share nothing: each is the network that would be trained alone."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from sae.config.methods import EnsembleConfig, StandardConfig
from sae.core.task import Classification, SampleKind, Shape
from sae.data.dataset import Dataset
from sae.methods import Batch, build_method
from sae.methods.costing import cost_of
from sae.methods.deep_ensemble import DeepEnsemble
from sae.training.run import train
from sae.training.trainer import Trainer
from tests.builders import SHAPE, SHAPES, SMALL_BACKBONES, blobs, run_config, spec_of
from tests.training.interruptions import interrupt, results

every_backbone = pytest.mark.parametrize("backbone", SMALL_BACKBONES)
EPOCHS = 2


class OneStream(Trainer):
    """Trains a standard network on what one member of an ensemble sees."""

    member = 0

    def batches(self, epoch: int, stream: int) -> Iterator[Batch]:
        assert stream == 0
        return (replace(batch, stream=0) for batch in super().batches(epoch, self.member))


def ensemble_of(num_members: int, backbone: str, seed: int = 0) -> DeepEnsemble:
    method = build_method(EnsembleConfig(members=num_members), SMALL_BACKBONES[backbone], spec_of(backbone), seed)
    assert isinstance(method, DeepEnsemble)
    return method


def standard(backbone: str, seed: int = 0) -> DeepEnsemble:
    method = build_method(StandardConfig(), SMALL_BACKBONES[backbone], spec_of(backbone), seed)
    assert isinstance(method, DeepEnsemble)
    return method


def data(shape: Shape = SHAPE) -> Dataset:
    return blobs(Classification(3), num_samples=70, shape=shape)  # the last batch of 16 is smaller


def train_epochs(
    method: DeepEnsemble, backbone: str, kind: type[Trainer] = Trainer, member: int = 0
) -> list[dict[str, float]]:
    """Two epochs with augmentation, and with clipping that binds."""
    shape = SHAPES[backbone]
    is_signal = SampleKind.of(shape) is SampleKind.SIGNALS
    varied = {"crop": 1, "jitter": 0.1, "scale": 0.1} if is_signal else {"crop": 1, "flip": True}
    config = run_config(
        backbone=SMALL_BACKBONES[backbone].model_dump(),
        method={"name": "standard"},
        data={"name": "digits", **varied},
        train={"epochs": EPOCHS, "batch_size": 16, "lr": 3e-3, "clip_norm": 0.1},
    )
    trainer = kind(method, data(shape), config)
    if isinstance(trainer, OneStream):
        trainer.member = member
    return [trainer.train_epoch(epoch) for epoch in range(EPOCHS)]


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


@every_backbone
def test_members_trained_together_equal_members_trained_alone(backbone: str) -> None:
    together = ensemble_of(3, backbone)
    starts = [{k: v.clone() for k, v in member.state_dict().items()} for member in together.network.members]
    log = train_epochs(together, backbone)
    logs = []
    for number, (member, start) in enumerate(zip(together.network.members, starts, strict=True)):
        alone = standard(backbone)
        alone.network.members[0].load_state_dict(start)
        logs.append(train_epochs(alone, backbone, OneStream, number))
        assert same(alone.network.members[0].state_dict(), member.state_dict())
    for epoch in range(EPOCHS):
        for term in ("loss", "grad_norm"):
            mean = sum(alone_log[epoch][term] for alone_log in logs) / 3
            assert log[epoch][term] == pytest.approx(mean)


@every_backbone
def test_an_ensemble_of_one_is_the_standard_network(backbone: str) -> None:
    one, plain = ensemble_of(1, backbone), standard(backbone)
    assert same(one.state_dict(), plain.state_dict())
    assert train_epochs(one, backbone) == train_epochs(plain, backbone)
    assert same(one.state_dict(), plain.state_dict())


def test_a_member_is_the_same_in_ensembles_of_any_size() -> None:
    two, three = ensemble_of(2, "vgg"), ensemble_of(3, "vgg")
    train_epochs(two, "vgg")
    train_epochs(three, "vgg")
    for member, other in zip(two.network.members, three.network.members, strict=False):
        assert same(member.state_dict(), other.state_dict())


@every_backbone
def test_members_start_from_different_weights_everywhere(backbone: str) -> None:
    networks = ensemble_of(3, backbone).network.members
    constant = {  # of norms, which start as ones and zeros
        f"{name}.{own}"
        for name, module in networks[0].named_modules()
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm)
        for own in ("weight", "bias")
    }
    drawn = {name for name, _ in networks[0].named_parameters()} - constant
    for one, other in combinations(networks, 2):
        assert not any(torch.equal(one.get_parameter(name), other.get_parameter(name)) for name in drawn)
    if backbone == "vit":
        assert {"backbone.stem.class_tokens", "backbone.stem.positions.table"} <= drawn


def test_members_see_the_data_in_different_orders_and_augmented_apart() -> None:
    config = run_config(method={"name": "ensemble"}, train={"batch_size": 70})
    plain = Trainer(ensemble_of(3, "fc"), data(), config)
    orders = [next(plain.batches(0, stream)) for stream in range(3)]
    assert [batch.stream for batch in orders] == [0, 1, 2]
    for other in orders[1:]:
        assert not torch.equal(orders[0].targets, other.targets)
        assert torch.equal(orders[0].inputs.flatten().sort().values, other.inputs.flatten().sort().values)
    cropped = Trainer(ensemble_of(3, "fc"), data(), run_config(data={"name": "digits", "crop": 1}))
    sums = [next(cropped.batches(0, stream)).inputs.sum().item() for stream in range(3)]
    assert len(set(sums)) == 3


def test_a_member_that_is_clipped_leaves_the_others_alone() -> None:
    calm, wild = ensemble_of(2, "fc"), ensemble_of(2, "fc")
    with torch.no_grad():
        head = wild.network.members[1].get_submodule("exit.1")
        assert isinstance(head, nn.Linear)
        head.weight.mul_(1e3)
    train_epochs(calm, "fc")
    train_epochs(wild, "fc")
    assert same(calm.network.members[0].state_dict(), wild.network.members[0].state_dict())
    assert not same(calm.network.members[1].state_dict(), wild.network.members[1].state_dict())


def test_weights_are_decayed_in_every_member() -> None:
    trainer = Trainer(ensemble_of(3, "fc"), data(), run_config(train={"weight_decay": 0.5}))
    assert [group["weight_decay"] for group in trainer.optimizer.param_groups] == [0.5] * 3


def test_an_interrupted_ensemble_continues_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = run_config(method={"name": "ensemble", "members": 3}, backbone={"name": "vgg", "depth": 2})
    whole = train(config, tmp_path / "whole")
    interrupt(config, tmp_path / "run", monkeypatch)
    assert results(train(config, tmp_path / "run")) == results(whole)


@every_backbone
def test_an_ensemble_costs_the_sum_of_its_members(backbone: str) -> None:
    one = cost_of(StandardConfig(), SMALL_BACKBONES[backbone], SHAPES[backbone], 3)
    four = cost_of(EnsembleConfig(members=4), SMALL_BACKBONES[backbone], SHAPES[backbone], 3)
    assert (four.flops, four.params) == (4 * one.flops, 4 * one.params)
    assert [part.flops for part in four.by_part.values()] == [one.flops] * 4
