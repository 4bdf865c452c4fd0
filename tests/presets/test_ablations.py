"""Every ablation of the paper works from training to the exported file."""

import re
from pathlib import Path

import pytest

from sae.cli.training import resolve_run
from sae.config.methods import SaeConfig
from sae.config.run import RunConfig, parse_run
from sae.config.settings import Layer, from_assignments
from sae.core.errors import ConfigError
from sae.data.catalogue import load
from sae.deploy.export import export
from sae.methods.costing import cost_of
from sae.presets import ablations, read_ablation
from sae.training.run import train
from sae.training.run_evaluation import evaluate
from tests.builders import run_config

BASE = run_config(method={"name": "sae", "inputs": 2, "exits": 2}, backbone={"name": "fc", "depth": 3})


def config_of(name: str) -> RunConfig:
    backbone = {"name": "vit", "depth": 2} if name == "class_token" else {}
    small = {"method": {"inputs": 2, "exits": 2}, "train": {"epochs": 1}, "backbone": backbone}
    return parse_run(BASE.model_dump(mode="json"), small, read_ablation(name))


def test_the_papers_ablations_are_shipped() -> None:
    names = ["class_token", "constant_schedules", "fixed_exits", "scaled_data_fit", "shared_head", "tempered_noise"]
    assert ablations() == names


@pytest.mark.slow
@pytest.mark.parametrize("name", ablations())
def test_an_ablation_works_from_training_to_the_exported_file(name: str, tmp_path: Path) -> None:
    config = config_of(name)
    record = train(config, tmp_path / "run")
    evaluation = record.read_evaluation().test
    assert evaluate(record.path).evaluation == evaluation
    spec = load(config.data, config.seed).spec
    for reading in evaluation.readings:
        active = list(reading.active)
        cost = cost_of(config.method, config.backbone, spec.shape, spec.task.num_outputs, active)
        assert (cost.params, cost.flops) == (reading.params, reading.flops)
    manifest = export(record.path, tmp_path / "shipped" / "model.onnx")  # refuses a graph that predicts otherwise
    assert manifest.cost.shipped_flops == evaluation.chosen.shipped_flops


def test_the_command_line_takes_an_ablation_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags = {"data": {"name": "digits"}, "backbone": {"name": "fc"}}
    assert resolve_run(Path("shared_head"), flags, []).method.summary() == ["N=2", "K=2", "shared head"]
    Path("shared_head").write_text("method: {name: sae, inputs: 3}")  # a file of the user's comes first
    assert resolve_run(Path("shared_head"), flags, []).method.summary() == ["N=3", "K=2"]


def test_a_wrong_name_is_answered_with_the_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = "class_token, constant_schedules, fixed_exits, scaled_data_fit, shared_head, tempered_noise"
    message = f"--config must be a file or one of {names}, got shared_heads, did you mean shared_head?"
    with pytest.raises(ConfigError, match=re.escape(message)):
        resolve_run(Path("shared_heads"), {}, [])
    with pytest.raises(ConfigError, match=r"config file must be readable, got shared_head\.yaml"):
        resolve_run(Path("shared_head.yaml"), {}, [])


@pytest.mark.parametrize("backbone", ["fc", "vgg", "resnet", "conv1d"])
def test_only_a_vit_has_class_tokens_to_read(backbone: str) -> None:
    given = {**BASE.model_dump(mode="json"), "backbone": {"name": backbone, "pooling": "class_token"}}
    with pytest.raises(ConfigError, match=f"unknown setting backbone.pooling for {backbone}"):
        parse_run(given)


@pytest.mark.parametrize(
    ("name", "flags", "assignments", "message"),
    [
        ("shared_head", {"method": {"name": "standard"}}, [], "shared_head needs method sae, got standard"),
        ("fixed_exits", {}, ["method=ensemble"], "fixed_exits needs method sae, got ensemble"),
        ("class_token", {"backbone": {"name": "fc"}}, [], "class_token needs backbone vit, got fc"),
    ],
)
def test_another_method_or_backbone_that_would_drop_an_ablation_is_refused(
    name: str, flags: Layer, assignments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=f"--config {message}: leave out one of the two"):
        resolve_run(Path(name), {"data": {"name": "digits"}, **flags}, assignments)


@pytest.mark.parametrize("name", ablations())
def test_an_ablation_differs_from_the_default_in_what_it_says(name: str) -> None:
    plain = parse_run(BASE.model_dump(mode="json"), {"backbone": {"name": "vit"}} if name == "class_token" else {})
    changed = parse_run(plain.model_dump(mode="json"), read_ablation(name))
    assert changed != plain
    assert changed.data == plain.data
    assert changed.train == plain.train


def test_constant_schedules_stay_where_the_default_ones_end() -> None:
    constant = parse_run(BASE.model_dump(mode="json"), read_ablation("constant_schedules")).method.model_dump()
    for name in ("temperature", "kl_weight", "repeat_fraction"):
        end = getattr(SaeConfig(), name).end
        assert constant[name] == {"start": end, "end": end}


def test_settings_of_ablations_are_not_written_at_their_defaults() -> None:
    new = {"shared_head", "learn_exits", "noise_on", "scale_data_fit", "cost_weight", "pooling"}
    for layer in ({}, {"backbone": {"name": "vit"}}):
        written = parse_run(BASE.model_dump(mode="json"), layer).model_dump(mode="json")
        assert not new & {*written["method"], *written["backbone"]}
    set_ = from_assignments(["method.shared_head=true", "method.learn_exits=false"])
    written = parse_run(BASE.model_dump(mode="json"), set_).model_dump(mode="json")
    assert written["method"]["shared_head"] is True
    assert written["method"]["learn_exits"] is False
