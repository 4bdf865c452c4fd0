import copy
import math

import pytest
import torch
from torch import nn

from sae.config.run import RunConfig
from sae.core.errors import ConfigError, DivergedError
from sae.core.task import Classification
from sae.methods import Batch, Loss, Method
from sae.methods.sae import Sae
from sae.training.trainer import FlatParameters, Trainer, pick_device
from tests.builders import SHAPES, blobs, run_config, small_method


def trainer(name: str = "sae", **train: object) -> Trainer:
    config: RunConfig = run_config(method={"name": name}, train={"batch_size": 32, **train})
    return Trainer(small_method(name, "fc"), blobs(Classification(3)), config)


def test_the_learning_rate_falls_by_a_cosine_to_zero() -> None:
    t = trainer(epochs=4, lr=0.1)
    rates = [t.learning_rate(step) for step in range(t.num_steps + 1)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[t.num_steps // 2] == pytest.approx(0.05)
    assert rates[-1] == pytest.approx(0.0)
    assert rates == sorted(rates, reverse=True)


def test_progress_runs_from_zero_to_one() -> None:
    t = trainer(epochs=2)
    seen: list[float] = []
    whole = t.method.training_loss

    def spy(batch: Batch, progress: float, generator: torch.Generator) -> Loss:
        seen.append(progress)
        return whole(batch, progress, generator)

    t.method.training_loss = spy  # type: ignore[method-assign]
    for epoch in range(2):
        t.train_epoch(epoch)
    assert seen == pytest.approx([step / (len(seen) - 1) for step in range(len(seen))])


def test_exit_logits_are_not_decayed() -> None:
    t = trainer(weight_decay=0.5)
    decays = [group["weight_decay"] for group in t.optimizer.param_groups]
    assert decays == [0.5, 0.0]
    assert isinstance(t.method, Sae)
    logits = t.optimizer.param_groups[1]["params"][0]
    assert logits.numel() == t.method.exit_distribution.logits.numel()


def test_huge_logit_gradients_do_not_crush_those_of_the_weights() -> None:
    t = trainer(clip_norm=5.0)
    assert isinstance(t.method, Sae)
    t.method.exit_distribution.logits.register_hook(lambda gradient: gradient * 1e6)
    norms = t.train_epoch(0)
    assert norms["logit_grad_norm"] > 1e3
    before = min(norms["grad_norm"], 5.0)
    weights, logits = t.groups
    assert weights.gradient.norm().item() > 0.1 * before
    assert logits.gradient.norm().item() <= 5.0 * 1.001


def test_both_norms_and_all_terms_are_logged() -> None:
    assert list(trainer().train_epoch(0)) == ["lr", "loss", "data_fit", "kl", "grad_norm", "logit_grad_norm"]
    assert list(trainer("standard").train_epoch(0)) == ["lr", "loss", "grad_norm"]
    assert list(trainer("ensemble").train_epoch(0)) == ["lr", "loss", "grad_norm"]


def test_every_epoch_draws_anew_but_the_same_for_the_same_seed() -> None:
    seen: dict[int, list[tuple[torch.Tensor, int]]] = {0: [], 1: []}
    for _ in range(2):
        t = trainer()
        whole = t.method.training_loss
        for epoch in (0, 1):

            def spy(batch: Batch, progress: float, generator: torch.Generator, epoch: int = epoch) -> Loss:
                seen[epoch].append((batch.targets, generator.initial_seed()))
                return whole(batch, progress, generator)  # noqa: B023

            t.method.training_loss = spy  # type: ignore[method-assign]
            t.train_epoch(epoch)
    for epoch in (0, 1):
        first, again = seen[epoch][:3], seen[epoch][3:]
        assert all(torch.equal(a[0], b[0]) and a[1] == b[1] for a, b in zip(first, again, strict=True))
    assert not torch.equal(seen[0][0][0], seen[1][0][0])  # another order of samples
    assert seen[0][0][1] != seen[1][0][1]  # another generator for mixing and exits


def poison(method: Method, at_step: int) -> None:
    """Let the loss become NaN at a step, as a real divergence would."""
    whole, count = method.training_loss, iter(range(10**6))

    def training_loss(batch: Batch, progress: float, generator: torch.Generator) -> Loss:
        loss = whole(batch, progress, generator)
        return Loss(loss.total * (math.nan if next(count) == at_step else 1.0), loss.terms)

    method.training_loss = training_loss  # type: ignore[method-assign]


def test_a_non_finite_loss_says_where_it_was() -> None:
    t = trainer()
    poison(t.method, at_step=4)  # epochs have three steps
    t.train_epoch(0)
    with pytest.raises(DivergedError, match=r"was nan at step 2 of 3 in epoch 2: lower train.lr"):
        t.train_epoch(1)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_trains(precision: str) -> None:
    t = trainer(precision=precision, epochs=15, lr=3e-3)
    losses = [t.train_epoch(epoch)["loss"] for epoch in range(15)]
    assert losses[-1] < 0.5 * losses[0]
    assert all(parameter.dtype == torch.float32 for parameter in t.method.parameters())


@pytest.mark.parametrize("name", ["cuda:7", "tpu"])
def test_a_device_that_is_not_here_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"train.device must be a device that torch can use here"):
        pick_device(name)


def test_the_forward_pass_has_the_precision_that_was_asked_for() -> None:
    t = trainer(precision="bfloat16", epochs=1)
    assert isinstance(t.method, Sae)
    seen: list[torch.dtype] = []
    t.method.network.register_forward_hook(lambda *args: seen.append(args[2].dtype))
    t.train_epoch(0)
    assert set(seen) == {torch.bfloat16}


def test_gradients_are_unscaled_before_they_are_clipped_and_logged() -> None:
    half, full = (trainer(precision=precision, epochs=9, lr=1e-9) for precision in ("float16", "float32"))
    for epoch in range(8):  # the scale falls until nothing overflows
        half.train_epoch(epoch)
    assert half.train_epoch(8)["grad_norm"] == pytest.approx(full.train_epoch(8)["grad_norm"], rel=0.2)


@pytest.mark.parametrize("backbone", ["fc", "vgg", "vit", "conv1d"])
def test_every_backbone_takes_a_step_in_mixed_precision(backbone: str) -> None:
    config = run_config(train={"batch_size": 32, "precision": "bfloat16"})
    t = Trainer(small_method("sae", backbone), blobs(Classification(3), shape=SHAPES[backbone]), config)
    assert math.isfinite(t.train_epoch(0)["loss"])


def network() -> nn.Module:
    torch.manual_seed(0)  # no BatchNorm: the bias before it has a gradient of pure rounding, which Adam would amplify
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2))


def test_one_adam_step_on_the_vector_is_a_step_on_every_tensor() -> None:
    flat_net = network()
    plain_net = copy.deepcopy(flat_net)
    flat = FlatParameters(list(flat_net.parameters()))
    flat_adam = torch.optim.AdamW([flat.parameter], lr=0.1, weight_decay=0.1)
    plain_adam = torch.optim.AdamW(plain_net.parameters(), lr=0.1, weight_decay=0.1)
    for step in range(3):
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
        flat.zero_grad()
        plain_adam.zero_grad()
        flat_net(x).square().sum().backward()
        plain_net(x).square().sum().backward()
        norm = flat.clip_grad_norm(0.5)
        plain_norm = nn.utils.clip_grad_norm_(plain_net.parameters(), 0.5)
        torch.testing.assert_close(norm, plain_norm)
        flat_adam.step()
        plain_adam.step()
    for one, other in zip(flat_net.parameters(), plain_net.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_below_the_norm_are_left_alone() -> None:
    flat = FlatParameters([nn.Parameter(torch.zeros(2))])
    flat.gradient.copy_(torch.tensor([3.0, 4.0]))
    assert flat.clip_grad_norm(10.0).item() == 5.0
    assert flat.gradient.tolist() == [3.0, 4.0]


def test_copies_of_a_flattened_network_are_independent() -> None:
    net = network()
    FlatParameters(list(net.parameters()))
    twin = copy.deepcopy(net)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert any(parameter.abs().sum() > 0 for parameter in net.parameters())
