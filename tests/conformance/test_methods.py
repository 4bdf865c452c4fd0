"""What must hold of every method on every backbone."""

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from sae.analysis.network_plan import network_plan
from sae.config.run import RunConfig
from sae.core.predictive import Categorical, Gaussian, Predictive, aggregate
from sae.core.task import Classification, DataSpec, Regression, Task, WeightedClassification
from sae.measure.cost import measure_cost
from sae.methods import Batch, Method
from sae.records.network import total_of
from sae.report.figures.network import draw_file
from sae.training.evaluator import describe_network, measure_costs, member_outputs, validation_metrics
from sae.training.trainer import Trainer
from tests.builders import (
    REGRESSION_SPEC,
    SHAPES,
    SMALL_BACKBONES,
    SMALL_METHODS,
    SPEC,
    blobs,
    run_config,
    skip_refused,
    small_method,
    spec_of,
)

every_method = pytest.mark.parametrize("name", SMALL_METHODS)
every_backbone = pytest.mark.parametrize("backbone", SMALL_BACKBONES)
every_task = pytest.mark.parametrize("task", [SPEC.task, REGRESSION_SPEC.task], ids=["classification", "regression"])


def config_of(name: str, backbone: str, epochs: int = 1) -> RunConfig:
    skip_refused(name, backbone)
    train = {"epochs": epochs, "lr": 3e-3, "batch_size": 32}
    return run_config(
        method=SMALL_METHODS[name],
        backbone=SMALL_BACKBONES[backbone].model_dump(),
        train=train,
        data={"name": "digits"},
    )


def batch(spec: DataSpec, seed: int = 0, stream: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    targets = (
        torch.randint(0, 3, (8,), generator=generator)
        if isinstance(spec.task, Classification)
        else torch.randn(8, generator=generator)
    )
    return Batch(torch.randn(8, *spec.shape, generator=generator), targets, stream)


def distributions_match(one: Predictive, other: Predictive) -> None:
    if isinstance(one, Categorical):
        assert isinstance(other, Categorical)
        torch.testing.assert_close(one.probs, other.probs, rtol=1e-4, atol=1e-6)
    else:
        assert isinstance(other, Gaussian)
        torch.testing.assert_close(one.mean, other.mean, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(one.variance, other.variance, rtol=1e-4, atol=1e-5)


def trained(method: Method, spec: DataSpec) -> Method:
    """A few steps, so that weights, statistics and exits are no longer those of the start."""
    optimizer = torch.optim.Adam(method.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(0)
    for step in range(3):
        optimizer.zero_grad()
        for stream in range(method.num_streams):
            method.train().training_loss(batch(spec, step, stream), step / 2, generator).total.backward()
        optimizer.step()
    return method.eval()


@every_method
@every_backbone
def test_members_have_weights_that_sum_to_one(name: str, backbone: str) -> None:
    members = small_method(name, backbone).eval().predict_members(torch.randn(4, *SHAPES[backbone]))
    assert members.outputs.shape == (4, len(members.weights), 3)
    assert members.weights.sum().item() == pytest.approx(1.0)


@every_method
@every_backbone
@torch.no_grad()
def test_one_sample_never_sees_another(name: str, backbone: str) -> None:
    method = small_method(name, backbone).eval()
    x = torch.randn(4, *SHAPES[backbone])
    alone, together = method.predict_members(x[:1]).outputs, method.predict_members(x).outputs[:1]
    torch.testing.assert_close(alone, together, rtol=1e-4, atol=1e-5)


@every_method
@every_backbone
@every_task
@torch.enable_grad()
def test_pruned_predicts_what_the_method_predicts(name: str, backbone: str, task: Task) -> None:
    spec = spec_of(backbone, task)
    method = trained(small_method(name, backbone, spec), spec)
    x = torch.randn(5, *SHAPES[backbone])
    for k in method.exit_choices:
        pruned = method.pruned(k)
        direct = aggregate(spec.task, pruned(x), pruned.weights)
        distributions_match(direct, aggregate(spec.task, method.member_outputs(x), method.member_weights(k)))


@every_method
@every_backbone
def test_cost_is_that_of_one_sample_whatever_was_predicted_before(name: str, backbone: str) -> None:
    method = small_method(name, backbone).eval()
    pruned = method.pruned()
    before = measure_cost(pruned, SHAPES[backbone])
    pruned(torch.randn(7, *SHAPES[backbone]))
    assert measure_cost(pruned, SHAPES[backbone]) == before
    assert before.params == sum(p.numel() for p in pruned.parameters())
    assert before.flops > before.params / 100


@every_method
@every_backbone
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(name: str, backbone: str) -> None:
    one, two, other = (small_method(name, backbone, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)


@every_method
def test_building_leaves_the_global_generator_alone(name: str) -> None:
    before = torch.get_rng_state()
    small_method(name, "fc")
    assert torch.equal(torch.get_rng_state(), before)


@every_method
@every_backbone
def test_state_restores_the_same_outputs(name: str, backbone: str) -> None:
    method = trained(small_method(name, backbone, seed=1), spec_of(backbone))
    other = small_method(name, backbone, seed=2).eval()
    other.seed = method.seed  # of what is drawn at prediction; a run keeps it in its config
    other.load_state_dict(method.state_dict())
    x = torch.randn(3, *SHAPES[backbone])
    assert torch.equal(other.predict_members(x).outputs, method.predict_members(x).outputs)


@every_method
@every_backbone
def test_every_parameter_is_in_one_group(name: str, backbone: str) -> None:
    method = small_method(name, backbone)
    grouped = [id(parameter) for group in method.parameter_groups() for parameter in group.parameters]
    assert sorted(grouped) == sorted(id(parameter) for parameter in method.parameters())


@every_method
@every_task
def test_the_loss_returns_finite_named_terms(name: str, task: Task) -> None:
    spec = spec_of("fc", task)
    loss = small_method(name, "fc", spec).training_loss(batch(spec), 0.5, torch.Generator().manual_seed(0))
    assert loss.total.isfinite()
    assert all(term.isfinite() for term in loss.terms.values())


@every_method
@every_backbone
def test_a_small_problem_is_learnt(name: str, backbone: str) -> None:
    dataset = blobs(Classification(3), shape=SHAPES[backbone])
    config = config_of(name, backbone, epochs=12)
    trainer = Trainer(small_method(name, backbone), dataset, config)
    accuracies: list[float] = []
    for epoch in range(config.train.epochs):
        trainer.train_epoch(epoch)
        outputs = member_outputs(trainer.method, [trainer.prepare(dataset.val.inputs[:])])
        accuracies.append(validation_metrics(trainer.method, dataset, outputs)["accuracy"])
        if min(accuracies[-2:]) > 0.95 and epoch > 0:  # learnt, and not by luck: the other epochs only cost time
            return
    pytest.fail(f"the accuracy must reach 0.95 and stay there for two epochs, got {accuracies}")


@every_method
def test_a_small_regression_is_learnt_in_its_own_units(name: str) -> None:
    dataset = blobs(Regression(mean=5.0, std=1.6))
    config = config_of(name, "fc", epochs=20)
    trainer = Trainer(small_method(name, "fc", dataset.spec), dataset, config)
    for epoch in range(config.train.epochs):
        trainer.train_epoch(epoch)
    outputs = member_outputs(trainer.method, [trainer.prepare(dataset.val.inputs[:])])
    metrics = validation_metrics(trainer.method, dataset, outputs)
    assert metrics["mse"] < 0.25 * np.var(dataset.val.targets)


@every_method
def test_class_weights_multiply_the_loss_of_their_samples(name: str) -> None:
    doubled = DataSpec(SPEC.shape, WeightedClassification(3, (2.0, 2.0, 2.0)))
    losses = [
        small_method(name, "fc", spec).training_loss(batch(spec), 0.3, torch.Generator().manual_seed(7))
        for spec in (SPEC, doubled)
    ]
    plain, weighted = (loss.terms.get("data_fit", loss.total).item() for loss in losses)
    assert weighted == pytest.approx(2 * plain, rel=1e-5)


@every_method
def test_a_step_is_the_same_for_the_same_generator(name: str) -> None:
    method = small_method(name, "fc")
    losses = [method.training_loss(batch(SPEC), 0.3, torch.Generator().manual_seed(7)).total for _ in range(2)]
    assert losses[0].item() == losses[1].item()


@every_method
@every_backbone
def test_its_parts_sum_to_its_costs_at_every_number_of_exits(name: str, backbone: str) -> None:
    method, spec = small_method(name, backbone).eval(), spec_of(backbone)
    readings = measure_costs(method, spec)
    network = describe_network(method, config_of(name, backbone).method, spec, readings)
    for reading in readings:
        found = network.at(reading.eval_exits)
        assert {key: getattr(found.total, key) for key in reading.costs} == reading.costs
        assert sum(member.weight for member in found.members) == pytest.approx(1.0)


@every_method
@every_backbone
def test_its_drawing_and_its_table_hold_every_part(name: str, backbone: str) -> None:
    method, spec, config = small_method(name, backbone).eval(), spec_of(backbone), config_of(name, backbone)
    network = describe_network(method, config.method, spec, measure_costs(method, spec))
    for reading in network.readings:
        plan = network_plan(network, config, name, reading.eval_exits)
        drawn = [part.cost for part in plan.parts if part.is_used and part.cost]
        assert total_of(drawn) == plan.used == reading.total
        assert plan.num_predictions == len(reading.members)
        svg = ElementTree.fromstring(draw_file(plan))
        assert f"{plan.used.params:,} parameters" in " ".join(text.text or "" for text in svg.iter() if text.text)


@every_method
@torch.enable_grad()
def test_a_sample_counts_by_its_weight(name: str) -> None:
    spec = spec_of("fc", Classification(3))
    method = small_method(name, "fc").train()
    plain = batch(spec)
    other = replace(plain, targets=plain.targets.clone().index_fill_(0, torch.tensor(0), (plain.targets[0] + 1) % 3))

    def loss(given: Batch, first: float) -> float:
        weighted = replace(given, weights=torch.ones(8).index_fill_(0, torch.tensor(0), first))
        return method.training_loss(weighted, 0.5, torch.Generator().manual_seed(0)).total.item()

    assert loss(plain, 0.0) == loss(other, 0.0)  # so nothing is learnt from its target
    assert loss(plain, 1.0) != loss(other, 1.0)
    unweighted = method.training_loss(plain, 0.5, torch.Generator().manual_seed(0)).total.item()
    assert loss(plain, 1.0) == pytest.approx(unweighted)
    assert loss(plain, 3.0) - loss(plain, 1.0) == pytest.approx(2 * (loss(plain, 1.0) - loss(plain, 0.0)), rel=1e-3)
