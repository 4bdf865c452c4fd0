import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sae.backbones import MemberNetwork
from sae.config.run import RunConfig, TeacherConfig
from sae.core.errors import ConfigError, DataError, RecordError
from sae.core.predictive import Categorical, aggregate
from sae.core.task import Classification, Regression
from sae.data.batches import Preparation
from sae.data.catalogue import load
from sae.methods import Batch, build_method
from sae.records.run import RunRecord
from sae.training.run import restore, train
from sae.training.run_evaluation import evaluate
from sae.training.teacher import Teacher, load_teacher
from sae.training.trainer import Trainer
from tests.builders import SMALL_METHODS, run_config
from tests.training.interruptions import interrupt, results

FC: dict[str, Any] = {"backbone": {"name": "fc", "depth": 2}, "train": {"epochs": 2, "batch_size": 128}}


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = run_config(method={"name": "ensemble", "members": 3}, **FC)
    return train(config, tmp_path_factory.mktemp("runs") / "ensemble").path


def student(teacher: Path, method: str = "sae", train: dict[str, Any] | None = None, **settings: Any) -> RunConfig:
    given = {"method": SMALL_METHODS[method], **FC, "teacher": {"run": str(teacher), **settings}}
    return run_config(**given | {"train": {**FC["train"], **(train or {})}})


class Halves(MemberNetwork):
    """Two linear members, with numbers that can be worked out."""

    def __init__(self, num_features: int, num_outputs: int) -> None:
        super().__init__(torch.tensor([0.5, 0.5]))
        self.members = nn.ModuleList(nn.Linear(num_features, num_outputs) for _ in range(2))

    def parts(self) -> dict[str, nn.Module]:
        return {}

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([member(x) for member in self.members], dim=1)


def linear_teacher(perturb: float, unit: Tensor | float = 1.0, num_outputs: int = 3) -> Teacher:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = Halves(6, num_outputs)
    return Teacher(network, Classification(num_outputs), TeacherConfig(run="x", perturb=perturb), unit)


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("method", SMALL_METHODS)
def test_a_teacher_without_weight_changes_no_byte(method: str, ensemble: Path, tmp_path: Path) -> None:
    config = student(ensemble, method, {"epochs": 1}, weight=0.0, perturb=0.0)
    taught = train(config, tmp_path / "taught")
    alone = train(config.model_copy(update={"teacher": None}), tmp_path / "alone")
    assert results(taught) == results(alone)


@pytest.mark.parametrize("method", SMALL_METHODS)
def test_every_method_comes_nearer_to_its_teacher(method: str, ensemble: Path) -> None:
    config = student(ensemble, method, {"lr": 3e-3, "batch_size": 64}, weight=1.0, temperature=1.0, perturb=0.0)
    dataset = load(config.data, config.seed)
    teacher = load_teacher(config, dataset)
    prepare = Preparation(dataset.normalisation, 3, torch.device("cpu"))
    x = prepare(dataset.train.inputs[:200])
    wanted = teacher.predict(x).outputs[:, 0]

    def distance(config: RunConfig) -> float:
        method = build_method(config.method, config.backbone, dataset.spec, config.seed)
        trainer = Trainer(method, dataset, config, guide=teacher.guide)
        for epoch in range(config.train.epochs):
            trainer.train_epoch(epoch)
        members = method.eval().predict_members(x)
        mixed = aggregate(dataset.spec.task, members.outputs, members.weights)
        assert isinstance(mixed, Categorical)
        return (wanted.exp() * (wanted - mixed.log_probs)).sum(dim=1).mean().item()

    short = config.model_copy(update={"train": config.train.model_copy(update={"epochs": 1})})
    assert distance(config) < distance(short)


def test_a_teacher_predicts_what_its_run_predicts(ensemble: Path) -> None:
    config = student(ensemble, temperature=1.0)
    method, dataset = restore(RunRecord.open(ensemble))
    x = Preparation(dataset.normalisation, 3, torch.device("cpu"))(dataset.val.inputs[:20])
    members = method.predict_members(x)
    mean = aggregate(dataset.spec.task, members.outputs, members.weights)
    assert isinstance(mean, Categorical)
    torch.testing.assert_close(load_teacher(config, dataset).predict(x).outputs[:, 0], mean.log_probs.detach())


def test_a_member_with_a_teacher_of_its_own_gets_that_one(ensemble: Path) -> None:
    config = student(ensemble, "ensemble", match="members", temperature=1.0, perturb=0.0)
    dataset = load(config.data, config.seed)
    teacher = load_teacher(config, dataset)
    x = torch.randn(5, *dataset.spec.shape)
    outputs = restore(RunRecord.open(ensemble))[0].member_outputs(x)  # (batch, member, out)
    guidance = teacher.predict(x)
    assert guidance.num_teachers == 3
    for stream in range(4):
        expected = outputs[:, stream % 3].log_softmax(dim=1)
        torch.testing.assert_close(guidance.of_all(stream).outputs, expected.detach(), rtol=1e-4, atol=1e-5)


def batches_and_calls(config: RunConfig) -> tuple[list[Batch], list[int], Teacher]:
    """Return the guided batches of two epochs, and how many samples the teacher was asked about each time."""
    dataset = load(config.data, config.seed)
    teacher = load_teacher(config, dataset)
    calls: list[int] = []
    teacher.network.register_forward_pre_hook(lambda _, given: calls.append(len(given[0])))
    method = build_method(config.method, config.backbone, dataset.spec, config.seed)
    trainer = Trainer(method, dataset, config, guide=teacher.guide)
    return [batch for epoch in (0, 1) for batch in trainer.batches(epoch, 0)], calls, teacher


def augmented(config: RunConfig, **changes: object) -> RunConfig:
    return config.model_copy(update={"data": config.data.model_copy(update=changes)})


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("match", ["mean", "members"])
def test_samples_and_their_mirror_images_are_predicted_once(ensemble: Path, match: str, flip: bool) -> None:
    config = augmented(student(ensemble, match=match, perturb=0.0), flip=flip)
    batches, calls, teacher = batches_and_calls(config)
    assert 2 * sum(calls) == sum(len(batch.targets) for batch in batches) * (1 + flip)
    for batch in batches:
        assert batch.guidance is not None
        torch.testing.assert_close(batch.guidance.outputs, teacher.predict(batch.inputs).outputs)


@pytest.mark.parametrize("change", ["crop", "perturb", "memory"])
def test_samples_that_change_or_are_too_many_are_predicted_in_every_epoch(
    ensemble: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = student(ensemble, perturb=1.0 if change == "perturb" else 0.0)
    if change == "crop":
        config = augmented(config, crop=1)
    if change == "memory":
        monkeypatch.setattr("sae.training.teacher.MOST_REMEMBERED", 100)
    batches, calls, _ = batches_and_calls(config)
    assert calls == [len(batch.targets) for batch in batches]


def test_samples_move_by_the_asked_size_times_the_confidence() -> None:
    teacher, x = linear_teacher(perturb=1.5), torch.randn(7, 6)
    moved = teacher.perturbed(x, draws())
    chosen = int(torch.randint(2, (), generator=draws()))
    confidence = teacher.network.outputs_of(chosen, x).softmax(dim=1).amax(dim=1)
    torch.testing.assert_close((moved - x).norm(dim=1), 1.5 * math.sqrt(6) * confidence)


def test_the_size_is_counted_in_units_of_each_number() -> None:
    unit = torch.tensor([1.0, 2.0, 3.0, 1.0, 2.0, 3.0])
    teacher, x = linear_teacher(perturb=1.0, unit=unit), torch.randn(7, 6)
    confidence = teacher.network.outputs_of(int(torch.randint(2, (), generator=draws())), x).softmax(dim=1).amax(dim=1)
    torch.testing.assert_close(((teacher.perturbed(x, draws()) - x) / unit).norm(dim=1), math.sqrt(6) * confidence)


def test_samples_move_to_where_the_drawn_combination_grows() -> None:
    teacher, x, generator = linear_teacher(perturb=1e-3), torch.randn(7, 6), draws(3)
    moved = teacher.perturbed(x, draws(3))
    member = int(torch.randint(2, (), generator=generator))
    factors = 2 * torch.rand(7, 3, generator=generator) - 1

    def combined(x: Tensor) -> Tensor:
        return (teacher.network.outputs_of(member, x).softmax(dim=1) * factors).sum(dim=1)

    assert (combined(moved) > combined(x)).all()
    for _ in range(20):  # no other direction of the same length is steeper
        other = torch.randn(7, 6)
        other *= (moved - x).norm(dim=1, keepdim=True) / other.norm(dim=1, keepdim=True)
        assert (combined(moved) >= combined(x + other) - 1e-7).all()


def test_a_teacher_that_is_certain_leaves_samples_where_they_are() -> None:
    teacher, x = linear_teacher(perturb=1.0), torch.randn(4, 6)
    for member in teacher.network.members:  # type: ignore[union-attr]
        assert isinstance(member, nn.Linear)
        member.weight.zero_()
    assert torch.equal(teacher.perturbed(x, draws()), x)


def test_guided_batches_carry_no_gradient_and_the_same_targets() -> None:
    teacher = linear_teacher(perturb=1.0)
    batch = Batch(torch.randn(4, 6), torch.arange(4) % 3)
    guided = teacher.guide(batch, draws())
    assert guided.guidance is not None
    assert not guided.inputs.requires_grad
    assert not guided.guidance.outputs.requires_grad
    assert guided.targets is batch.targets
    torch.testing.assert_close(guided.guidance.outputs, teacher.predict(guided.inputs).outputs)


def test_an_interrupted_student_continues_to_the_same_bytes(
    ensemble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = student(ensemble)
    interrupt(config, tmp_path / "run", monkeypatch)
    assert results(train(config, tmp_path / "run")) == results(train(config, tmp_path / "whole"))


@pytest.mark.slow
def test_students_trained_in_two_processes_are_the_same_to_the_byte(ensemble: Path, tmp_path: Path) -> None:
    config = student(ensemble, "ensemble", match="members")
    alone, together = train(config, tmp_path / "alone"), train(config, tmp_path / "together", processes=2)
    assert results(together) == results(alone)


def test_a_student_goes_on_only_with_the_teacher_it_began_with(
    ensemble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = run_config(method={"name": "standard"}, **FC)
    teacher = train(other, tmp_path / "teacher")
    config = student(teacher.path)
    interrupt(config, tmp_path / "run", monkeypatch)
    weights = (teacher.path / teacher.MODEL).read_bytes()
    train(other.model_copy(update={"seed": 1}), teacher.path, force=True)
    with pytest.raises(RecordError, match="whose network has changed since: bring the old one back"):
        train(config, tmp_path / "run")
    (teacher.path / teacher.STATUS).unlink()
    with pytest.raises(ConfigError, match=r"teacher.run must be the folder of a finished run: .*unfinished"):
        train(config, tmp_path / "run")
    train(other, teacher.path, force=True)
    assert (teacher.path / teacher.MODEL).read_bytes() == weights
    finished = train(config, tmp_path / "run")
    teacher.clear()  # a finished run needs its teacher no more
    assert train(config, tmp_path / "run").read_evaluation() == finished.read_evaluation()
    assert evaluate(finished.path).readings == finished.read_evaluation().test.readings
    assert finished.read_config().summary.endswith("distilled")


def test_a_teacher_of_other_samples_or_splits_is_refused(ensemble: Path, tmp_path: Path) -> None:
    config = student(ensemble)
    with pytest.raises(DataError, match=r"same samples in the same splits, but was not \(1"):
        train(config.model_copy(update={"data": config.data.model_copy(update={"split_seed": 5})}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_cannot_teach_itself(ensemble: Path) -> None:
    with pytest.raises(ConfigError, match="a run cannot be its own teacher"):
        train(student(ensemble), ensemble, force=True)
    assert RunRecord.open(ensemble).has_finished()


def test_only_methods_with_lasting_members_have_a_teacher_for_each() -> None:
    for method in ("standard", "mc_dropout"):
        with pytest.raises(ConfigError, match=f"teacher.match must be one of mean for {method}, got members"):
            student(Path("x"), method, match="members")


def test_regression_learns_from_a_teacher_without_temperature(tmp_path: Path) -> None:
    given: dict[str, Any] = {"data": {"name": "diabetes"}, **FC}
    teacher = train(run_config(method={"name": "ensemble", "members": 2}, **given), tmp_path / "teacher")
    taught = run_config(method={"name": "sae"}, **given, teacher={"run": str(teacher.path)})
    dataset = load(taught.data, taught.seed)
    assert isinstance(dataset.spec.task, Regression)
    assert train(taught, tmp_path / "run").has_finished()
    with pytest.raises(ConfigError, match=r"teacher.temperature softens classes .* got 3.0: leave it out"):
        train(run_config(**given, teacher={"run": str(teacher.path), "temperature": 3.0}), tmp_path / "other")


def test_runs_that_differ_in_their_teachers_folder_are_seeds_of_one_configuration(ensemble: Path) -> None:
    one, other = student(ensemble), student(Path("another"))
    assert one.over_seeds == other.model_copy(update={"seed": 3}).over_seeds
    assert one.over_seeds != student(ensemble, weight=0.5).over_seeds
