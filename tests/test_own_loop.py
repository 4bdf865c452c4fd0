"""An ensemble in somebody's own training loop."""

import copy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from sae import Classification, Regression, SingleArchitectureEnsemble, aggregate, load, measure_cost, wrap
from sae.config.backbones import FcConfig
from sae.config.methods import SaeConfig
from sae.core.errors import ConfigError, DataError, OtherModelError, ParityError
from sae.core.predictive import Categorical
from sae.core.task import DataSpec, Task
from sae.deploy.runtime import ClassPrediction, ValuePrediction
from sae.methods import Batch, build_method
from tests.builders import SHAPES, SMALL_BACKBONES

TASKS: list[Task] = [Classification(3), Regression(mean=5.0, std=2.0)]


def small(backbone: str = "fc", task: Task | None = None, **settings: Any) -> SingleArchitectureEnsemble:
    """A network whose exits disagree about their worth, and whose BatchNorms have seen some data."""
    model = SingleArchitectureEnsemble(
        SMALL_BACKBONES[backbone], task or TASKS[0], 2, 2, shape=SHAPES[backbone], **settings
    )
    generator = torch.Generator().manual_seed(0)
    logits = model.method.exit_distribution.logits
    with torch.no_grad():
        logits.copy_(torch.randn(logits.shape, generator=generator) * 0.1)
        model.loss(*samples(model, 16), progress=0.0)
    return model


def samples(model: SingleArchitectureEnsemble, count: int = 6, seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, *model.spec.shape, generator=generator)
    is_values = isinstance(model.spec.task, Regression)
    return x, torch.randn(count, generator=generator) * 2 + 5 if is_values else torch.arange(count) % 3


def state_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_the_loss_is_that_of_the_method_that_sae_train_trains(task: Task) -> None:
    model = SingleArchitectureEnsemble({"name": "fc", "depth": 3}, task, 2, 2, shape=(5,), seed=4)
    method = build_method(SaeConfig(inputs=2, exits=2), FcConfig(depth=3), DataSpec((5,), task), seed=4)
    x, y = samples(model)
    mean, std = (torch.tensor(each) for each in (task.mean, task.std)) if isinstance(task, Regression) else (0, 1)
    targets = (y - mean) / std if isinstance(task, Regression) else y
    expected = method.training_loss(Batch(x, targets), 0.3, torch.Generator().manual_seed(7)).total
    loss = model.loss(x, y, 0.3, torch.Generator().manual_seed(7))
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(model(x, y, 0.3, torch.Generator().manual_seed(7)), expected)
    assert loss.shape == ()
    assert loss.requires_grad


def test_the_own_generator_repeats_with_the_seed_and_moves_on() -> None:
    one, other = small(), small()
    x, y = samples(one)
    losses = [[model.loss(x, y, 0.0).item() for _ in range(3)] for model in (one, other)]
    assert losses[0] == losses[1]
    assert len(set(losses[0])) == 3


@pytest.mark.parametrize("exits", [None, 1, 3])
@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_a_prediction_is_the_aggregation_of_all_members(task: Task, exits: int | None) -> None:
    model = small(task=task)
    x, _ = samples(model)
    prediction = model.predict(x, exits)
    with torch.no_grad():
        outputs = model.eval().method.member_outputs(x)
    expected = aggregate(task, outputs, model.method.member_weights(exits))
    if isinstance(expected, Categorical):
        torch.testing.assert_close(prediction.mean, expected.probs)
        assert prediction.variance is None
    else:
        torch.testing.assert_close(prediction.mean, expected.mean)
        torch.testing.assert_close(prediction.variance, expected.variance)


def test_probabilities_are_the_weighted_mean_of_the_members() -> None:
    prediction = (model := small()).predict(samples(model)[0])
    assert prediction.members.shape == (6, len(prediction.weights), 3)
    assert (prediction.weights > 0).all()
    torch.testing.assert_close((prediction.weights[:, None] * prediction.members).sum(dim=1), prediction.mean)


def test_the_variance_is_the_members_doubt_plus_their_disagreement() -> None:
    prediction = (model := small(task=TASKS[1])).predict(samples(model)[0])
    mean, variance = prediction.members.unbind(dim=-1)
    weights = prediction.weights.double()
    second_moment = (weights * (variance + mean.square())).sum(dim=1)
    torch.testing.assert_close(prediction.variance, second_moment - prediction.mean.square(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backbone", ["fc", "vgg", "vit"])
@pytest.mark.parametrize("exits", [1, 2, 3])
def test_a_pruned_network_predicts_what_the_whole_one_predicts_at_k(backbone: str, exits: int) -> None:
    model = small(backbone)
    x, _ = samples(model)
    whole, pruned = model.predict(x, exits), model.prune(exits).predict(x)
    for name in ("mean", "members", "weights", "entropy", "disagreement"):
        torch.testing.assert_close(getattr(pruned, name), getattr(whole, name), msg=name)
    torch.testing.assert_close(model.prune(exits)(x), whole.mean)


def test_a_pruned_network_is_new_and_smaller() -> None:
    model = small()
    before, x = state_of(model), samples(model)[0]
    pruned = model.prune(1)
    for parameter in pruned.parameters():
        nn.init.zeros_(parameter)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not torch.equal(pruned.predict(x).mean, model.predict(x, 1).mean)
    costs = [measure_cost(model.prune(exits).network, model.spec.shape).flops for exits in (1, 2, 3)]
    assert costs == sorted(set(costs))


def test_predicting_changes_nothing() -> None:
    model = small().train()
    model.method.network.connectors[0].eval()  # somebody froze its BatchNorm
    before, modes = state_of(model), [part.training for part in model.modules()]
    first = model.predict(samples(model)[0])
    assert [part.training for part in model.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not first.mean.requires_grad
    alone = model.predict(samples(model)[0][:1])
    torch.testing.assert_close(alone.mean, first.mean[:1])  # no statistics of the batch


def test_predictions_do_not_depend_on_the_progress_of_training() -> None:
    model = small()
    x, y = samples(model)
    with torch.no_grad():
        model.eval().loss(x, y, progress=0.5)
    restored = small()
    restored.load_state_dict(model.state_dict())
    assert torch.equal(restored.predict(x).mean, model.predict(x).mean)


@pytest.mark.parametrize("settings", [{}, {"learn_exits": False}, {"shared_head": True}])
def test_the_groups_hold_each_parameter_once_and_the_logits_do_not_decay(settings: dict[str, Any]) -> None:
    model = small(**settings)
    optimizer = torch.optim.AdamW(model.parameter_groups(), lr=1e-3, weight_decay=0.1)
    grouped = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    assert sorted(grouped) == sorted(id(parameter) for parameter in model.parameters())
    decays = {id(parameter): group["weight_decay"] for group in optimizer.param_groups for parameter in group["params"]}
    logits = id(model.method.exit_distribution.logits)
    assert decays.pop(logits) == 0.0
    assert set(decays.values()) == {0.1}


def digits() -> tuple[Tensor, Tensor]:
    bunch = load_digits()
    return torch.tensor(bunch.images, dtype=torch.float32)[:, None] / 16, torch.tensor(bunch.target)


def steps(count: int, size: int, epochs: int) -> Iterator[tuple[float, Tensor]]:
    """Progress and the indices of a batch, in an order that the seed fixes."""
    generator = torch.Generator().manual_seed(0)
    for epoch in range(epochs):
        batches = torch.randperm(count, generator=generator).split(size)
        for number, batch in enumerate(batches):
            yield (epoch + number / len(batches)) / epochs, batch


def test_a_plain_loop_on_digits_learns() -> None:
    x, y = digits()
    model = SingleArchitectureEnsemble({"name": "fc", "depth": 3}, Classification(10), 2, 2, shape=(1, 8, 8))
    optimizer = torch.optim.AdamW(model.parameter_groups(), lr=3e-3)
    for progress, batch in steps(1400, 64, epochs=6):
        loss = model.loss(x[batch], y[batch], progress)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    for exits in (1, 2, 3):
        assert (model.predict(x[1400:], exits).mean.argmax(dim=1) == y[1400:]).float().mean() > 0.88


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> tuple[SingleArchitectureEnsemble, Path]:
    """A network and its exported file."""
    model, path = small().train(), tmp_path_factory.mktemp("shipped") / "model.onnx"
    manifest = model.export(path, samples(model, 8)[0], class_names=["a", "b", "c"])
    assert manifest.parity.samples == 8
    assert model.training
    return model, path


def assert_same_predictions(model: SingleArchitectureEnsemble, path: Path) -> None:
    x, _ = samples(model, 20)
    predicted, expected = load(path).predict(x.numpy(), members=True), model.predict(x)
    assert isinstance(predicted, ClassPrediction)
    assert predicted.members is not None
    np.testing.assert_allclose(predicted.members, expected.members, atol=1e-5)
    np.testing.assert_allclose(predicted.probs, expected.mean, atol=1e-5)
    np.testing.assert_allclose(predicted.disagreement, expected.disagreement, atol=1e-5)
    assert predicted.names == [predicted.class_names[label] for label in expected.mean.argmax(dim=1)]


@pytest.mark.long
def test_onnxruntime_predicts_what_the_network_predicts(shipped: tuple[SingleArchitectureEnsemble, Path]) -> None:
    assert_same_predictions(*shipped)
    manifest = load(shipped[1]).manifest
    assert (manifest.network.method, manifest.network.backbone, manifest.network.max_exits) == ("sae", "fc", 2)
    assert manifest.target.class_names == ("a", "b", "c")
    assert manifest.cost.flops == measure_cost(shipped[0].prune().network, shipped[0].spec.shape).flops


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["vgg", "vit", "resnet", "conv1d"])
def test_every_kind_of_backbone_can_be_exported(backbone: str, tmp_path: Path) -> None:
    model = small(backbone)
    model.export(tmp_path / "model.onnx", samples(model, 8)[0])
    assert_same_predictions(model, tmp_path / "model.onnx")


@pytest.mark.long
def test_values_are_exported_in_the_units_of_the_data(tmp_path: Path) -> None:
    model = SingleArchitectureEnsemble({"name": "fc", "depth": 2}, Regression(1e6, 3.0), 2, 1, shape=(5,))
    x, _ = samples(model, 12)
    model.export(tmp_path / "model.onnx", x, exits=2)
    predicted, expected = load(tmp_path).predict(x.double().numpy()), model.predict(x, exits=2)
    assert isinstance(predicted, ValuePrediction)
    assert expected.variance is not None
    np.testing.assert_allclose(predicted.mean - 1e6, expected.mean - 1e6, atol=1e-4)
    np.testing.assert_allclose(predicted.variance, expected.variance, rtol=1e-4)


def test_an_exported_model_needs_no_torch_and_promises_no_coverage(
    shipped: tuple[SingleArchitectureEnsemble, Path], tmp_path: Path
) -> None:
    model, path = shipped
    x, _ = samples(model)
    np.save(tmp_path / "x.npy", x.numpy())
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy, sae\n"
        f"model = sae.load({str(path)!r})\n"
        f"prediction = model.predict(numpy.load({str(tmp_path / 'x.npy')!r}))\n"
        "print(*prediction.probs.ravel().tolist())\n"
        "try: model.sets(prediction)\n"
        "except sae.SaeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    numbers, refusal = done.stdout.splitlines()
    np.testing.assert_allclose(np.array(numbers.split(), float), model.predict(x).mean.flatten(), atol=1e-5)
    assert "exported from a training loop, without labels" in refusal


def test_the_same_network_is_not_written_again_and_another_is_refused(
    shipped: tuple[SingleArchitectureEnsemble, Path],
) -> None:
    model, path = shipped
    x, _ = samples(model)
    written = path.stat().st_mtime_ns
    assert model.export(path, x, class_names=["a", "b", "c"]) == load(path).manifest
    assert path.stat().st_mtime_ns == written
    for other, names in ((small(seed=1), ["a", "b", "c"]), (model, ["x", "y", "z"])):
        with pytest.raises(OtherModelError, match="another run, number of exits, precision or calibration"):
            other.export(path, x, class_names=names)


def test_a_graph_that_differs_is_not_written(
    shipped: tuple[SingleArchitectureEnsemble, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = shipped[1].read_bytes()
    monkeypatch.setattr("sae.deploy.method_export.shipped_content", lambda *_: content)
    model = small(seed=1)
    with pytest.raises(ParityError, match="must predict what the trained network predicts"):
        model.export(tmp_path / "new" / "model.onnx", samples(model)[0])
    assert not (tmp_path / "new").exists()


def test_a_copy_goes_on_alone() -> None:
    model = small()
    twin = copy.deepcopy(model)
    x, y = samples(model)
    assert model.loss(x, y, 0.0).item() == twin.loss(x, y, 0.0).item()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: small(inputz=3), r"unknown setting inputz for sae, did you mean inputs\?"),
        (lambda: small(temperature={"start": 2.0, "end": 0.1}), "temperature.start"),
        (
            lambda: SingleArchitectureEnsemble("vg", TASKS[0], 2, 2, shape=(3, 8, 8)),
            "backbone must be one of .*did you",
        ),
        (lambda: SingleArchitectureEnsemble("fc", TASKS[0], 2, 9, shape=(4,)), r"exits must be in \[1, 5\], got 9"),
        (
            lambda: small().loss(torch.zeros(4, 2, 8, 8), torch.zeros(4).long(), 7),
            r"progress must be in \[0, 1\], got 7",
        ),
        (
            lambda: SingleArchitectureEnsemble("fc", 10, 2, 2, shape=(4,)),  # type: ignore[arg-type]
            r"task must be sae\.Classification\(10\) or sae\.Regression\(mean, std\), got 10",
        ),
        (
            lambda: SingleArchitectureEnsemble("fc", TASKS[0], 2, 2, shape=4),  # type: ignore[arg-type]
            r"shape must be a tuple of sizes, such as \(4,\), got 4",
        ),
        (lambda: small(scale_data_fit=True), "number of training samples: give population"),
        (lambda: small().predict(torch.zeros(4, 2, 8, 8), 4), r"number of exits must be in \[1, 3\]"),
    ],
)
def test_a_wrong_setting_is_one_sentence(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ConfigError, match=message):
        make()


def test_wrong_samples_and_targets_are_refused() -> None:
    model, values = small(), small(task=TASKS[1])
    x, y = samples(model)
    with pytest.raises(DataError, match=r"samples must be \(batch, 2, 8, 8\), got \(6, 8, 8\)"):
        model.loss(x[:, 0], y, 0.0)
    with pytest.raises(DataError, match=r"must be \(batch,\), one for each of 6 samples, got \(6, 1\)"):
        values.loss(x, y[:, None], 0.0)
    with pytest.raises(DataError, match=r"class indices, whole numbers, got torch.float32"):
        model.loss(x, y.float(), 0.0)
    with pytest.raises(DataError, match="a batch must have at least one sample, got none"):
        model.loss(x[:0], y[:0], 0.0)
    with pytest.raises(DataError, match=r"a tensor of floats, got torch\.uint8"):
        model.predict(x.byte())
    with pytest.raises(DataError, match="a tensor of floats, got ndarray"):
        model.loss(x.numpy(), y, 0.0)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"a batch of at least one"):
        model.export(Path("model.onnx"), x[:0])
    with pytest.raises(DataError, match="must name 3 classes, got 2"):
        model.export(Path("model.onnx"), x, class_names=["a", "b"])
    with pytest.raises(DataError, match="must be finite"):
        model.export(Path("model.onnx"), x * torch.inf)


def test_values_that_cannot_be_learnt_are_refused_before_they_reach_the_network() -> None:
    model, values = small("vgg"), small(task=TASKS[1])
    x, y = samples(model)
    before = state_of(model)
    nan = x.clone()
    nan[1, 0, 0, 0] = torch.nan
    with pytest.raises(DataError, match="samples must be finite, but 1 of 6 hold NaN or infinity: fill or drop them"):
        model.loss(nan, y, 0.0)
    for wrong, given in ((y + 1, 3), (y - 2, -2)):
        with pytest.raises(DataError, match=f"class indices from 0 to 2, got {given}: number the classes from 0"):
            model.loss(x, wrong, 0.0)
    assert all(torch.equal(before[name], tensor) for name, tensor in state_of(model).items())  # BatchNorm's, too
    with pytest.raises(DataError, match="targets must be finite, but 2 of 6"):
        values.loss(x, torch.tensor([1.0, torch.nan, 2.0, torch.inf, 0.0, 1.0]), 0.0)
    with pytest.raises(DataError, match="targets must be a tensor, got ndarray"):
        model.loss(x, y.numpy(), 0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("ask", ["loss", "predict", "pruned"])
def test_samples_must_have_the_type_of_the_weights(ask: str) -> None:
    model = small()
    x, y = samples(model)
    asks: dict[str, Callable[[Tensor], object]] = {
        "loss": lambda x: model.loss(x, y, 0.0),
        "predict": model.predict,
        "pruned": model.prune().predict,
    }
    with pytest.raises(
        DataError, match=r"torch.float32, as the weights are, got torch.float64: .* \.to\(torch.float32\)"
    ):
        asks[ask](x.double())
    with pytest.raises(DataError, match=r"got torch\.float64"), torch.autocast("cpu", torch.bfloat16):
        asks[ask](x.double())
    with torch.autocast("cpu", torch.bfloat16):
        asks[ask](x.bfloat16())  # autocast converts it


def test_bfloat16_keeps_the_exit_distribution_in_float32_and_learns() -> None:
    x, y = digits()
    model = SingleArchitectureEnsemble({"name": "fc", "depth": 2}, Classification(10), 2, 2, shape=(1, 8, 8))
    optimizer = torch.optim.AdamW(model.parameter_groups(), lr=3e-3)
    losses = []
    for progress, batch in steps(512, 64, epochs=3):
        with torch.autocast("cpu", torch.bfloat16):
            loss = model.loss(x[batch], y[batch], progress)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        assert loss.dtype == torch.float32
    assert np.isfinite(losses).all()
    assert np.mean(losses[-8:]) < 0.7 * np.mean(losses[:8])
    with torch.autocast("cpu", torch.bfloat16):
        assert model.exit_weights().dtype == torch.float32
        assert model.method.exit_distribution.sample(2, 0.5, torch.Generator()).dtype == torch.float32
        prediction = model.predict(x[:50])
    assert prediction.mean.dtype == torch.float32
    torch.testing.assert_close(prediction.mean, model.predict(x[:50]).mean, atol=0.05, rtol=0.05)
    assert model.method.exit_distribution.logits.grad is not None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")  # inside torch.compile
@pytest.mark.parametrize("backbone", ["fc", "vgg"])
def test_a_compiled_network_trains_and_predicts_the_same(backbone: str) -> None:
    eager, compiled = small(backbone), small(backbone)
    compiled.compile()
    x, y = samples(eager, 8)
    losses: dict[str, list[float]] = {"eager": [], "compiled": []}
    for name, model in (("eager", eager), ("compiled", compiled)):
        optimizer = torch.optim.SGD(model.parameter_groups(), lr=0.05)
        for step in range(3):
            loss = model.loss(x, y, step / 3)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[name].append(loss.item())
    assert losses["compiled"] == pytest.approx(losses["eager"], abs=1e-4)
    torch.testing.assert_close(compiled.predict(x).mean, eager.predict(x).mean, atol=1e-4, rtol=0)
    assert compiled.state_dict().keys() == eager.state_dict().keys()
    torch.testing.assert_close(compiled.prune(1).predict(x).mean, eager.predict(x, 1).mean, atol=1e-4, rtol=0)


class TwoBlocks(nn.Module):
    """Somebody's own network."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.second = nn.Sequential(nn.Conv2d(6, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.head = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.second(self.first(x)).mean(dim=(2, 3)))
        return logits


@pytest.mark.long
def test_a_wrapped_module_is_trained_pruned_and_exported(tmp_path: Path) -> None:
    x, y = digits()
    backbone = wrap(TwoBlocks(), x[0], exits=["first", "second"])
    model = SingleArchitectureEnsemble(backbone, Classification(10), 2, 2)
    optimizer = torch.optim.AdamW(model.parameter_groups(), lr=1e-2)
    grouped = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    assert sorted(grouped) == sorted(id(parameter) for parameter in model.parameters())  # not those of the template
    losses = []
    for progress, batch in steps(1400, 64, epochs=3):
        loss = model.loss(x[batch], y[batch], progress)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])
    for exits in (1, 2):
        torch.testing.assert_close(model.prune(exits).predict(x[:5]).mean, model.predict(x[:5], exits).mean)
    manifest = model.export(tmp_path / "model.onnx", x[:20])
    assert manifest.network.backbone == "TwoBlocks"
    predicted = load(tmp_path).predict(x[:20].numpy())
    assert isinstance(predicted, ClassPrediction)
    np.testing.assert_allclose(predicted.probs, model.predict(x[:20]).mean, atol=1e-5)


def test_the_shape_of_a_sample_is_known_once() -> None:
    backbone = wrap(TwoBlocks(), torch.zeros(1, 8, 8), exits=["first", "second"])
    assert SingleArchitectureEnsemble(backbone, TASKS[0], 2, 2, shape=(1, 8, 8)).spec.shape == (1, 8, 8)
    with pytest.raises(ConfigError, match=r"wrapped with, \(1, 8, 8\), got \(1, 9, 9\)"):
        SingleArchitectureEnsemble(backbone, TASKS[0], 2, 2, shape=(1, 9, 9))
    with pytest.raises(ConfigError, match="shape must be given for the backbone vgg"):
        SingleArchitectureEnsemble("vgg", TASKS[0], 2, 2)
    with pytest.raises(ConfigError, match=r"got TwoBlocks: give sae.wrap\(module, sample\)"):
        SingleArchitectureEnsemble(TwoBlocks(), TASKS[0], 2, 2)  # type: ignore[arg-type]


def test_by_default_it_has_one_input_and_all_exits() -> None:
    model = SingleArchitectureEnsemble({"name": "fc", "depth": 3}, Classification(3), shape=(5,))
    assert model.predict(torch.randn(2, 5)).members.shape == (2, 3, 3)
