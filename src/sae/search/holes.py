"""Holes in settings: ranges and choices where a run has one value."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from sae.config.settings import Layer
from sae.core.errors import ConfigError

KINDS = ("int", "float", "log", "choice")
DEPTH = "depth"
"""As the upper end of a range: the stages of the backbone."""


@dataclass(frozen=True)
class Hole:
    """What may stand in a place.

    Attributes:
        kind: `int`, `float` and `log` take both ends of a range, `choice` the values themselves.
        values: The ends, or the choices.
    """

    kind: str
    values: tuple[Any, ...]

    def distribution(self) -> BaseDistribution:
        """As Optuna knows it; choices that are not plain values are named by their JSON."""
        if self.kind == "int":
            return IntDistribution(*self.values)
        if self.kind == "choice":
            return CategoricalDistribution([_choice_name(value) for value in self.values])
        low, high = self.values
        return FloatDistribution(low, high, log=self.kind == "log")

    def value(self, suggested: Any) -> Any:
        """What to put in the place for what Optuna suggests."""
        if self.kind != "choice":
            return suggested
        return next(value for value in self.values if _choice_name(value) == suggested)

    def points(self) -> list[Any] | None:
        """All that Optuna may suggest, or None if there is no end to it."""
        if self.kind == "int":
            return list(range(self.values[0], self.values[1] + 1))
        if self.kind == "choice":
            return [_choice_name(value) for value in self.values]
        return None

    def ends(self) -> list[Any]:
        """Suggestions whose acceptance means that all others are accepted."""
        return [_choice_name(value) for value in self.values]

    def as_setting(self) -> dict[str, Any]:
        """As it is written in YAML."""
        return {self.kind: list(self.values)}


def read_holes(values: Layer, path: str = "") -> dict[str, Any]:
    """The same settings with a `Hole` in place of every `{int: [1, 4]}` and its like."""
    return {key: _read(value, f"{path}.{key}".lstrip(".")) for key, value in values.items()}


def write_holes(values: Layer) -> dict[str, Any]:
    """The opposite of `read_holes`."""
    written: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Hole):
            written[key] = value.as_setting()
        else:
            written[key] = write_holes(value) if isinstance(value, Mapping) else value
    return written


def find_holes(values: Layer, prefix: str = "") -> Iterator[tuple[str, Hole]]:
    """Every hole with its path, `method.inputs`."""
    for key, value in values.items():
        if isinstance(value, Hole):
            yield f"{prefix}{key}", value
        elif isinstance(value, Mapping):
            yield from find_holes(value, f"{prefix}{key}.")


def fill_holes(values: Layer, suggested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The same settings with a value in every hole that is suggested by its path; others are left open."""
    filled: dict[str, Any] = {}
    for key, value in values.items():
        path = f"{prefix}{key}"
        if isinstance(value, Hole):
            filled[key] = value.value(suggested[path]) if path in suggested else value
        else:
            filled[key] = fill_holes(value, suggested, f"{path}.") if isinstance(value, Mapping) else value
    return filled


def _read(value: Any, path: str) -> Any:
    if not isinstance(value, Mapping):
        return value
    if len(value) == 1 and next(iter(value)) in KINDS:
        return _hole(*next(iter(value.items())), path)
    return read_holes(value, path)


def _hole(kind: str, values: Any, path: str) -> Hole:
    if not isinstance(values, list | tuple) or not values:
        raise ConfigError(f"{path}: {kind} takes a list, e.g. {{{kind}: [1, 4]}}, got {values!r}")
    if kind == "choice":
        if len({_choice_name(value) for value in values}) < len(values):
            raise ConfigError(f"{path}: choices must differ, got {list(values)}")
        return Hole(kind, tuple(values))
    if len(values) != 2 or not (_is_number(values[0], kind) and _is_upper_end(values[1], kind)):
        ends = f"whole numbers, or {DEPTH} for the upper one" if kind == "int" else "numbers"
        raise ConfigError(f"{path}: {kind} takes both ends of a range as {ends}, got {list(values)}")
    low, high = values
    if high != DEPTH and not low <= high:
        raise ConfigError(f"{path}: the lower end of a range must not be above the upper one, got {list(values)}")
    if kind == "log" and low <= 0:
        raise ConfigError(f"{path}: a range on a logarithmic scale must be above 0, got {list(values)}")
    return Hole(kind, (low, high))


def _is_upper_end(value: Any, kind: str) -> bool:
    return _is_number(value, kind) or (kind == "int" and value == DEPTH)


def _is_number(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (kind != "int" and isinstance(value, float))


def _choice_name(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) or value is None else json.dumps(value, default=str)
