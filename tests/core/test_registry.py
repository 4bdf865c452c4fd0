from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

import pytest

import sae.core.registry
from sae.core.errors import ConfigError, NotRegisteredError
from sae.core.registry import Registry, plugin_modules, resolve_reference


@dataclass(frozen=True)
class Colour:
    name: str
    shade: int = 0


GREEN = Colour("green")


def colours(monkeypatch: pytest.MonkeyPatch, **announced: str) -> Registry[Colour]:
    points = [EntryPoint(name, value, "example.colours") for name, value in announced.items()]
    monkeypatch.setattr(sae.core.registry, "entry_points", lambda **_: points)
    monkeypatch.setattr(sae.core.registry, "_modules", {})  # workers of later tests need not import this module
    registry = Registry("colour", "example.colours", Colour)
    registry.register(Colour("red"))
    return registry


def test_an_entry_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = colours(monkeypatch)
    assert registry.get("red") == Colour("red")
    assert "red" in registry
    assert [entry.name for entry in registry] == registry.names() == ["red"]


@pytest.mark.parametrize("name", ["rad", None, 3, ["red"]])
def test_an_unknown_name_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch, name: Any) -> None:
    registry = colours(monkeypatch)
    assert name not in registry
    with pytest.raises(NotRegisteredError, match=r"paint\.colour must be one of red; got ") as caught:
        registry.get(name, "paint.colour")
    assert ("did you mean red?" in str(caught.value)) == (name in ("rad", ["red"]))


def test_a_name_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = colours(monkeypatch)
    registry.register(Colour("red"))  # the same again, as when a module is loaded twice
    with pytest.raises(ConfigError, match="a colour must have a new name, got 'red', which is registered already"):
        registry.register(Colour("red", shade=2))


def test_an_entry_point_is_loaded_when_its_name_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = colours(monkeypatch, green=f"{__name__}:GREEN", blue="nowhere.to.be.found")
    assert registry.names() == ["red", "blue", "green"]
    assert registry.get("green") is GREEN


def test_an_entry_point_that_fails_is_named_in_a_warning_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = colours(monkeypatch, green=f"{__name__}:GREEN", blue="nowhere.to.be.found")
    with pytest.warns(UserWarning, match=r"the colour blue of .* is left out, because nowhere\.to\.be\.found cannot"):
        assert [entry.name for entry in registry] == ["red", "green"]
    with pytest.raises(NotRegisteredError, match="must be one of red, green; got 'blue'"):
        registry.get("blue")


def test_modules_of_others_that_register_something_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    colours(monkeypatch)
    assert plugin_modules() == (__name__,)


def test_a_reference_is_a_thing_or_the_place_where_it_is() -> None:
    assert resolve_reference(len) is len
    assert resolve_reference(f"{__name__}:colours") is colours
