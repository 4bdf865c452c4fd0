import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from typer.testing import CliRunner

from sae.backbones.weights import describe_weights
from sae.cli import app
from sae.config.run import RunConfig, parse_run
from sae.config.settings import LARGEST, Layer
from sae.core.errors import SaeError
from sae.data.catalogue import CATALOGUE, resolve
from sae.report.commands import FLAGS, train_command, train_commands
from tests.backbones.efficientnets import NAME, published
from tests.builders import run_config

__all__ = ["published"]


def understood(command: str) -> RunConfig:
    """What the real command line makes of a command, up to where training would start."""
    found: list[RunConfig] = []

    def stop(config: RunConfig, *_: Any, **__: Any) -> None:
        found.append(config)
        raise SaeError("far enough")

    program, *arguments = shlex.split(command)
    assert program == "sae"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sae.training.length.train", stop)
        result = CliRunner().invoke(app, arguments)
    assert found, result.stderr
    return found[0]


positive = st.floats(0, allow_infinity=False, allow_nan=False, exclude_min=True)
small = st.integers(1, LARGEST)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def schedule(low: float) -> st.SearchStrategy[dict[str, float]]:
    return st.fixed_dictionaries({"start": st.floats(low, 1), "end": st.floats(low, 1)})


Options = dict[str, st.SearchStrategy[Any]]

METHODS: dict[str, Options] = {
    "sae": {
        "inputs": small,
        "temperature": schedule(1e-3),
        "kl_weight": schedule(0),
        "repeat_fraction": schedule(0),
        "batch_repetition": small,
    },
    "standard": {},
    "ensemble": {"members": small},
    "mc_dropout": {"rate": st.floats(0, 1), "samples": small},
    "batch_ensemble": {"members": small},
}
BACKBONES: dict[str, Options] = {
    "fc": {"width": small},
    "vgg": {"width": small, "blocks": st.lists(st.integers(1, 3), min_size=5, max_size=5)},
    "resnet": {},
    "vit": {"width": small},
    "conv1d": {"width": small, "kernel": st.sampled_from([3, 5, 7, 9, 11])},
}
DATA: Options = {
    "task": st.sampled_from([None, "classification", "regression"]),
    "target": st.none() | texts,
    "size": st.sampled_from([None, 28, 64, 128, 224]),
    "split_seed": st.integers(0, 2**32 - 1),
    "crop": st.integers(0, 5),
    "flip": st.booleans(),
}
TRAIN: Options = {
    "epochs": st.integers(1, 200),
    "batch_size": st.integers(1, 512),
    "lr": positive,
    "weight_decay": st.floats(0, allow_infinity=False, allow_nan=False),
    "clip_norm": positive,
    "device": st.sampled_from(["cpu", "cuda:1"]) | texts,
    "precision": st.sampled_from(["float32", "bfloat16", "float16"]),
    "threads": small,
}


@st.composite
def configs(draw: st.DrawFn) -> RunConfig:
    """Any config on any set of the catalogue; of each section some settings are left as they would be taken."""
    name, method, backbone = (draw(st.sampled_from(sorted(names))) for names in (CATALOGUE, METHODS, BACKBONES))
    depth = draw(st.integers(1, 4 if backbone == "resnet" else 5))
    some: dict[str, Any] = {
        "data": draw(st.fixed_dictionaries({}, optional=DATA)),
        "method": {"name": method, **draw(st.fixed_dictionaries({}, optional=METHODS[method]))},
        "backbone": {"name": backbone, "depth": depth, **draw(st.fixed_dictionaries({}, optional=BACKBONES[backbone]))},
        "train": draw(st.fixed_dictionaries({}, optional=TRAIN)),
        "seed": draw(st.integers(0, 2**63)),
    }
    if method == "sae":
        some["method"]["exits"] = draw(st.integers(1, depth))
    return resolve({"data": name}, some)


@given(configs())
@settings(max_examples=100)
def test_the_command_is_understood_as_the_very_config(config: RunConfig) -> None:
    again = understood(train_command(config))
    assert again == config
    assert again.model_dump_json() == config.model_dump_json()


def test_what_is_taken_anyway_is_not_said() -> None:
    assert train_command(resolve({"data": "digits"})) == "sae train --data digits --out runs/again"
    blood = {"method": {"name": "batch_ensemble", "members": 3}}
    command = "sae train --data bloodmnist --method batch_ensemble --members 3 --out runs/again"
    assert train_command(resolve({"data": "bloodmnist"}, blood)) == command


def test_floats_are_written_in_full() -> None:
    lr = 0.1 + 0.2
    assert f"train.lr={lr!r}" in train_command(run_config(train={"lr": lr}))


def test_strange_names_reach_the_command_line_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "-it's a $(table).csv"
    Path(name).write_text("a,b\n1,2\n")
    settings = {"data": {"task": "regression", "target": "--b c"}, "train": {"device": "1e3"}}
    config = resolve({"data": name}, settings)
    command = train_command(config, out="my runs/x")
    assert command.endswith("--out 'my runs/x'")
    assert understood(command) == config


def test_early_stopping_that_was_turned_off_stays_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a,b\n" + "1,2\n" * 20)
    config = resolve({"data": {"name": "t.csv", "task": "regression", "target": "b"}, "train": {"patience": 0}})
    assert understood(train_command(config)) == config


@pytest.mark.parametrize("side", [8, 28])
def test_without_the_data_the_command_says_everything(
    side: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_settings = {"data": {"name": "own.npz"}, "backbone": "fc", "method": {"name": "sae"}, "train": {"lr": 1e-5}}
    config = parse_run(given_settings)
    monkeypatch.chdir(tmp_path)
    command = train_command(config)
    np.savez("own.npz", images=np.zeros((9, side, side), np.uint8), labels=np.arange(9) % 3)
    assert understood(command) == config
    assert len(train_command(config)) < len(command)


def test_every_flag_is_one_of_the_command_line() -> None:
    options = CliRunner().invoke(app, ["train", "--help"], env={"COLUMNS": "200"}).stdout
    assert all(f"{flag} " in options for flag in FLAGS.values())


def test_commands_of_many_configurations_are_those_of_each() -> None:
    methods = [{"name": "sae", "inputs": 2}, {"name": "sae", "exits": 1}, {"name": "ensemble", "members": 3}]
    configs = {str(number): resolve({"data": "digits", "method": method}) for number, method in enumerate(methods)}
    assert train_commands(configs) == {name: train_command(config) for name, config in configs.items()}


def test_defaults_of_published_weights_that_were_overridden_are_said(published: nn.Module) -> None:
    backbone = {"name": NAME, "pretrained": True}
    layers: list[Layer] = [{}, {"data": {"normalisation": "own"}}, {"train": {"freeze": 0, "lr": 1e-4, "epochs": 50}}]
    for more in layers:
        config = resolve({"data": "bloodmnist", "backbone": {**backbone, **describe_weights(NAME, backbone)}}, more)
        assert understood(train_command(config)) == config
    assert "freeze" not in train_command(resolve({"data": "bloodmnist", "backbone": backbone}))
