from typing import Any

import pytest
from pydantic import Field

from sae.config.backbones import BACKBONES, BackboneSettings, register_backbone
from sae.config.methods import METHODS, all_kinds, kinds_with_exits, rivals
from sae.core.errors import ConfigError
from tests.builders import SMALL_BACKBONES, SMALL_METHODS, method_settings, run_config


def test_kinds_are_in_the_order_of_the_paper() -> None:
    own = [
        "standard",
        "ensemble",
        "mc_dropout",
        "batch_ensemble",
        "packed",
        "I/B",
        "EE",
        "MIMMO",
        "MIMO",
        "SE",
        "STREAMS",
    ]
    assert list(all_kinds()) == own
    assert kinds_with_exits() == set(own[5:])


def test_only_packed_refuses_a_backbone_and_only_the_vit() -> None:
    refused = []
    for name in SMALL_METHODS:
        for backbone, settings in SMALL_BACKBONES.items():
            try:
                method_settings(name).check(settings)
            except ConfigError:
                refused.append((name, backbone))
    assert refused == [("packed", "vit")]


def test_the_first_rival_is_the_ensemble() -> None:
    assert rivals() == {"ensemble": "deep ensemble", "standard": "standard network"}


@pytest.mark.parametrize("name", METHODS.names())
def test_small_settings_and_kinds_fit_the_entry(name: str) -> None:
    entry = METHODS.get(name)
    settings = entry.settings.model_validate(entry.small)
    assert settings.name == name
    assert {settings.kind(depth) for depth in range(1, 6)} <= {kind.key for kind in entry.kinds}


@pytest.mark.parametrize("name", METHODS.names())
def test_influences_are_numbers_among_the_settings(name: str) -> None:
    for path in METHODS.get(name).influences.values():
        found: Any = run_config(method={"name": name})
        for key in path.split("."):
            found = getattr(found, key)
        assert isinstance(found, int | float)


def test_a_backbone_must_say_how_many_stages_it_has() -> None:
    class Bottomless(BackboneSettings):
        name: str = "bottomless"
        depth: int = Field(ge=1)

    with pytest.raises(ConfigError, match=r"Bottomless\.depth must have a default: the number of stages"):
        register_backbone("nowhere:build")(Bottomless)
    assert "bottomless" not in BACKBONES
