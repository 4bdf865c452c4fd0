import copy

import pytest
import torch
from torch import nn

from sae.backbones.base import Backbone
from sae.config.backbones import EfficientNetConfig, suit_backbone
from sae.config.run import RunConfig, lay_over
from sae.config.settings import Layer
from sae.core.errors import ConfigError
from sae.core.task import Classification
from sae.experiment import experiment_layers
from sae.methods import build_method
from sae.training.trainer import Trainer
from tests.backbones.efficientnets import NAME, published
from tests.builders import SHAPES, blobs, run_config, small_method

__all__ = ["published"]

METHODS = ["sae", "standard", "ensemble", "mc_dropout", "batch_ensemble", "packed"]
KEPT = {"name": NAME, "pretrained": True}


def trainer(name: str, **train: object) -> Trainer:
    config = run_config(method={"name": name}, train={"batch_size": 32, "lr": 0.1, "epochs": 1, **train})
    return Trainer(small_method(name, "vgg"), blobs(Classification(3), shape=SHAPES["vgg"]), config)


def backbones(method: nn.Module) -> list[Backbone]:
    return [module for module in method.modules() if isinstance(module, Backbone)]


def changed(trained: Trainer) -> list[set[str]]:
    """For each backbone, the names of the parameters and buffers that an epoch changes."""
    before = copy.deepcopy([backbone.state_dict() for backbone in backbones(trained.method)])
    trained.train_epoch(0)
    after = [backbone.state_dict() for backbone in backbones(trained.method)]
    return [
        {name for name in old if not torch.equal(old[name], new[name])} for old, new in zip(before, after, strict=True)
    ]


@pytest.mark.parametrize("name", METHODS)
def test_frozen_parts_of_every_method_stay_as_they_were_and_the_others_train(name: str) -> None:
    found = changed(trainer(name, freeze=2, frozen_batch_norm=True))
    assert found
    for names in found:
        assert names
        assert not any(name.startswith(("stem.", "stages.0.")) for name in names)
        assert not any("running" in name for name in names)


@pytest.mark.parametrize("name", METHODS)
def test_without_these_settings_everything_trains(name: str) -> None:
    found = changed(trainer(name))
    assert all(any(name.startswith("stages.0.") for name in names) for names in found)
    assert all(any("running" in name for name in names) for names in found)


def test_a_frozen_network_that_trains_only_its_heads_is_logistic_regression_on_its_features() -> None:
    t = trainer("standard", freeze=4, frozen_batch_norm=True, epochs=3)
    heads = [name for name, _ in t.method.named_parameters() if ".backbone." not in name]
    assert sum(group.parameter.numel() for group in t.groups) == sum(
        parameter.numel() for name, parameter in t.method.named_parameters() if name in heads
    )
    assert changed(t) == [set()]


def test_after_training_every_parameter_counts_again() -> None:
    t = trainer("standard", freeze=2)
    t.train_epoch(0)
    assert all(parameter.requires_grad for parameter in t.method.parameters())


def test_a_name_freezes_all_up_to_it() -> None:
    t = trainer("standard", freeze="stages.1", frozen_batch_norm=True)
    with pytest.raises(ConfigError, match=r"or the name of a part of the network with weights, such as .* got 'top'"):
        trainer("standard", freeze="top")
    with pytest.raises(ConfigError, match="at most 4, the stem and 3 stages, got 5"):
        trainer("standard", freeze=5)
    with pytest.raises(ConfigError, match=r"train.freeze must be how many parts are frozen, from 0 on, .* got -1"):
        trainer("standard", freeze=-1)
    [names] = changed(t)
    assert names
    assert all(name.startswith("stages.2") for name in names)


def test_a_published_network_is_frozen_up_to_its_late_blocks_whatever_the_cuts(published: nn.Module) -> None:
    config = run_config(backbone=KEPT, method={"name": "sae", "inputs": 1}, train={"freeze": "_blocks.12", "epochs": 1})
    data = blobs(Classification(3), shape=(3, 16, 16))
    [names] = changed(Trainer(build_method(config.method, config.backbone, data.spec), data, config))
    weights = {name.split(".", 2 if name.startswith("stages") else 1)[-1] for name in names if "running" not in name}
    blocks = {name for name in weights if name.startswith("_blocks") and "num_batches" not in name}
    assert {name.split(".")[1] for name in blocks} == {"13", "14", "15"}
    assert not any(name.startswith(("_conv_stem", "_bn0.w", "_bn0.b")) for name in weights)


def resolved(**given: Layer) -> RunConfig:
    data = {"data": {"name": "photos"}, "train": {"epochs": 100, "lr": 3e-3, "patience": 25}, "method": {"name": "sae"}}
    return lay_over(suit_backbone(data, given), given)


def test_kept_weights_are_fine_tuned_by_default_with_every_method() -> None:
    for method in METHODS:
        if method != "packed":
            train = resolved(backbone=KEPT, method={"name": method}).train
            assert (train.freeze, train.frozen_batch_norm, train.lr, train.epochs) == ("_blocks.10", True, 3e-4, 12)
    method_settings = resolved(backbone=KEPT).method.model_dump()
    assert (method_settings["inputs"], method_settings["exits"]) == (1, 4)
    assert resolved(backbone=KEPT, train={"freeze": 0, "lr": 1e-3}).train.lr == 1e-3
    fresh = resolved(backbone={"name": NAME}).train
    assert (fresh.freeze, fresh.frozen_batch_norm, fresh.lr, fresh.epochs) == (0, False, 3e-3, 100)


@pytest.mark.parametrize(("name", "last"), [("efficientnet-lite1", "_blocks.14"), ("efficientnet-lite2", "_blocks.14")])
def test_larger_networks_are_frozen_up_to_the_same_resolution(name: str, last: str) -> None:
    assert EfficientNetConfig.suggests({"name": name, "pretrained": True})["train"]["freeze"] == last


def test_an_experiment_searches_lower_rates_for_kept_weights() -> None:
    def rates(**backbone: object) -> object:
        layers = experiment_layers("digits", "small", [{"backbone": {"name": NAME, **backbone}}])
        return [layer["train"]["lr"]["choice"] for layer in layers if "lr" in layer.get("train", {})][-1]

    assert rates(pretrained=True) == rates(weights_file="w.pth") == [1e-4, 3e-4, 1e-3]
    assert rates() == [3e-4, 1e-3, 3e-3]
