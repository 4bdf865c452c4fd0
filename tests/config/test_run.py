from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sae.config.backbones import VggConfig
from sae.config.methods import EnsembleConfig, SaeConfig, StandardConfig
from sae.config.run import RunConfig, parse_run
from sae.config.settings import Settings, differences, from_assignments, merge, parse, read_settings, read_yaml, to_yaml
from sae.core.errors import ConfigError
from tests.builders import BACKBONE_NAMES

BASE: dict[str, Any] = {"data": {"name": "digits"}, "backbone": {"name": "fc"}}


def test_later_layers_go_over_earlier_ones() -> None:
    config = parse_run(BASE, {"train": {"epochs": 3, "lr": 0.1}}, {"train": {"epochs": 5}})
    assert (config.train.epochs, config.train.lr) == (5, 0.1)


def test_a_section_of_another_name_replaces_the_one_below() -> None:
    config = parse_run(BASE, {"method": {"name": "sae", "inputs": 4}}, {"method": {"name": "standard"}})
    assert config.method == StandardConfig()


def test_a_section_without_a_name_keeps_the_one_below() -> None:
    config = parse_run(BASE, {"method": {"name": "sae", "inputs": 4}}, {"method": {"exits": 3}})
    assert isinstance(config.method, SaeConfig)
    assert (config.method.inputs, config.method.exits) == (4, 3)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"train": {"epochz": 3}}, "unknown setting train.epochz, did you mean train.epochs?"),
        ({"trian": {}}, "unknown setting trian, did you mean train?"),
        ({"lr": 0.1}, "unknown setting lr, did you mean train.lr?"),
        ({"train": {"learning_rate": 0.1}}, "unknown setting train.learning_rate, did you mean train.lr?"),
        ({"method": {"name": "sae", "input": 2}}, "unknown setting method.input for sae, did you mean method.inputs?"),
        ({"method": {"name": "standard", "inputs": 2}}, "unknown setting method.inputs for standard"),
        (
            {"method": {"name": "sea"}},
            "method.name must be one of sae, standard, ensemble, mc_dropout, batch_ensemble, packed; "
            "got 'sea', did you mean sae?",
        ),
        ({"backbone": {"name": "vggg"}}, f"backbone.name must be one of {BACKBONE_NAMES}; got 'vggg'"),
        ({"method": {"name": "sae", "temperature": {"strat": 1}}}, "did you mean method.temperature.start?"),
        ({"method": {"name": "sae", "inputs": 0}}, "method.inputs must be greater than or equal to 1, got 0"),
        ({"method": {"name": "sae", "exits": 6}}, r"method.exits must be in [1, 5], got 6: fc has 5 stages"),
        ({"backbone": {"name": "fc", "depth": 2}, "method": {"name": "sae", "exits": 3}}, "fc has 2 stages"),
        ({"backbone": {"name": "fc", "depth": 9}}, "backbone.depth must be less than or equal to 5, got 9"),
        ({"backbone": {"name": "resnet", "width": 2}}, "backbone.width must be less than or equal to 1, got 2"),
        ({"backbone": {"name": "vgg", "blocks": [1, 1]}}, "backbone.blocks"),
        ({"train": {"lr": "fast"}}, "train.lr must be a valid number"),
        ({"train": {"lr": float("nan")}}, "train.lr must be a finite number"),
        ({"train": {"precision": "float8"}}, "train.precision must be 'float32', 'bfloat16' or 'float16'"),
        ({"method": {"name": "sae", "temperature": {"start": 0, "end": 1}}}, "method.temperature.start must be"),
        ({"train": 3}, "train must be"),
    ],
)
def test_a_wrong_setting_is_named_in_one_sentence(layer: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_run(BASE, layer)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_config_survives_yaml(tmp_path: Path) -> None:
    config = parse_run(BASE, {"backbone": {"name": "vgg", "blocks": [1, 1, 2, 2, 2]}, "train": {"lr": 1e-5}})
    (tmp_path / "run.yaml").write_text(to_yaml(config))
    again = parse(RunConfig, read_yaml(tmp_path / "run.yaml"))
    assert again == config
    assert isinstance(again.backbone, VggConfig)


class Anything(Settings):
    values: dict[str, Any]


NUMBERS_IN_TEXT = st.from_regex(r"[-+]?[0-9]{1,3}(\.[0-9]{0,2})?[eE][-+]?[0-9]{1,5}", fullmatch=True)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


@example("12e34567")
@example("1e-3")
@example("-.5E+6")
@given(st.none() | st.booleans() | st.integers() | FINITE | st.text() | NUMBERS_IN_TEXT)
def test_every_value_survives_yaml(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "value.yaml"
    path.write_text(to_yaml(Anything(values={"key": value, str(value): [value]})), encoding="utf-8")
    found = parse(Anything, read_yaml(path)).values
    assert found == {"key": value, str(value): [value]}
    assert type(found["key"]) is type(value)


def test_differences_name_the_settings_and_both_values() -> None:
    one, other = parse_run(BASE), parse_run(BASE, {"train": {"lr": 0.5}})
    assert differences(one, one) == []
    assert differences(one, other) == ["train.lr 0.0003 → 0.5"]


def test_assignments_read_numbers_that_yaml_takes_for_text() -> None:
    assert from_assignments(["train.lr=1e-3", "train.device=cpu", "seed=3"]) == {
        "train": {"lr": 1e-3, "device": "cpu"},
        "seed": 3,
    }


@pytest.mark.parametrize("text", ["train.lr", "=3", "train..lr=3"])
def test_a_broken_assignment_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--set takes section.key=value"):
        from_assignments([text])


def test_a_yaml_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    for text, message in [("a: [", "must be YAML"), ("- 1", "must hold a mapping")]:
        path.write_text(text)
        with pytest.raises(ConfigError, match=message):
            read_yaml(path)
    with pytest.raises(ConfigError, match="must be readable"):
        read_yaml(tmp_path / "absent.yaml")


def test_nothing_in_a_yaml_file_is_executed(tmp_path: Path) -> None:
    path, target = tmp_path / "run.yaml", tmp_path / "made"
    path.write_text(f"data: !!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['{target}']]")
    with pytest.raises(ConfigError, match="must be YAML"):
        read_yaml(path)
    assert not target.exists()


def test_merging_does_not_change_its_arguments() -> None:
    below, above = {"a": {"b": 1}}, {"a": {"c": 2}}
    assert merge(below, above) == {"a": {"b": 1, "c": 2}}
    assert (below, above) == ({"a": {"b": 1}}, {"a": {"c": 2}})


@pytest.mark.parametrize("members", [0, 65])
def test_an_ensemble_has_from_1_to_64_members(members: int) -> None:
    with pytest.raises(ConfigError, match=r"method\.members"):
        parse_run(BASE, {"method": {"name": "ensemble", "members": members}})
    assert parse_run(BASE, {"method": {"name": "ensemble"}}).method == EnsembleConfig(members=4)


def test_sections_may_be_given_by_their_names_alone() -> None:
    config = parse_run({"data": "digits", "backbone": "fc"}, {"method": "standard"})
    assert (config.data.name, config.backbone.name, config.method.name) == ("digits", "fc", "standard")


CHANGES = [
    ("", ""),
    ("epochs: 50", "epochs: 7"),
    ("epochs: 50", "epochs: many"),
    ("epochs: 50", "epochs: true"),
    ("epochs: 50", "epochz: 50"),
    ("epochs: 50", "epochs: 50  # a note"),
    ("exits: 1", "exits: 99"),
    ("exits: 1", "exit: 1"),
    ("name: sae", "name: nonesuch"),
    ("name: fc", "name: vgg"),
    ("seed: 0", "seed: 0\nseed: 1"),
    ("seed: 0", "seed: -1"),
    ("seed: 0", "speed: 1"),
    ("flip: false", "flip: [1"),
    ("backbone:", "backbones:"),
    ("train:", "train: 3\nother:"),
    ("  crop: 0", "  crop: 0\n  resize:\n  - 8\n  - 9"),
]


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_shared_sections_change_no_setting_and_no_error(old: str, new: str, tmp_path: Path) -> None:
    text = to_yaml(parse_run(BASE, {"method": {"name": "sae", "exits": 1}}))
    assert old in text

    def outcome(read: Callable[[], RunConfig]) -> object:
        try:
            config = read()
        except ConfigError as error:
            return type(error), str(error)
        return config, config.model_dump_json(), config.model_fields_set, config.train.model_fields_set

    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert read_settings(RunConfig, path).train.epochs == 50  # whose sections are remembered now
    path.write_text("# A comment.\n" + text.replace(old, new, 1))
    expected = outcome(lambda: parse(RunConfig, read_yaml(path)))
    assert outcome(lambda: read_settings(RunConfig, path)) == expected
