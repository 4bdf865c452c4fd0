"""Holes in settings: ranges and choices where a run has one value."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from sae.config.settings import Layer, Values
from sae.config.study import Value
from sae.core.errors import ConfigError

KINDS = ("int", "float", "log", "choice")
DEPTH = "depth"
"""The upper end of a range that is the number of stages of the backbone."""

Point = Mapping[str, Value]
"""A suggested value for each hole, by its path."""


@dataclass(frozen=True)
class Hole:
    """The values that a setting may take.

    Attributes:
        kind: `int`, `float` and `log` are ranges, `choice` is a list of values.
        values: Both ends of the range, or the choices.
    """

    kind: str
    values: tuple[object, ...]

    def distribution(self) -> BaseDistribution:
        """Return it as a distribution of Optuna; choices that are not plain values become JSON texts."""
        if self.kind == "int":
            low, high = map(int, self.bounds())
            return IntDistribution(low, high)
        if self.kind == "choice":
            return CategoricalDistribution([_choice_name(value) for value in self.values])
        return FloatDistribution(*self.bounds(), log=self.kind == "log")

    def bounds(self) -> tuple[float, float]:
        """Return both ends of a range of numbers."""
        low, high = map(number, self.values)
        return low, high

    def value(self, suggested: Value) -> object:
        """Return the setting for a suggestion of Optuna."""
        if self.kind != "choice":
            return suggested
        return next(value for value in self.values if _choice_name(value) == suggested)

    def points(self) -> list[Value] | None:
        """Return all values that Optuna may suggest, or None if they are continuous."""
        if self.kind == "int":
            low, high = map(int, self.bounds())
            return list(range(low, high + 1))
        if self.kind == "choice":
            return [_choice_name(value) for value in self.values]
        return None

    def ends(self) -> list[Value]:
        """Return the suggestions to check: if a run accepts these, it accepts all others."""
        return [_choice_name(value) for value in self.values]

    def suggestion(self, value: object) -> Value:
        """Return the suggestion that gives a setting this value, or None if the hole does not have it.

        The word `depth` means the upper end of a range.
        """
        if self.kind == "choice":
            return _choice_name(value) if value in self.values else None
        low, high = self.bounds()
        found = high if value == DEPTH else value
        is_inside = _is_number(found, self.kind) and low <= number(found) <= high
        return number(found) if is_inside else None

    def as_setting(self) -> Layer:
        """Return it as it is written in YAML."""
        return {self.kind: list(self.values)}


def number(value: object) -> float:
    """Return a value of a range as a number."""
    assert isinstance(value, int | float), f"a range holds numbers, got {value!r}"
    return value


def read_holes(values: Layer, path: str = "") -> Values:
    """Replace every `{int: [1, 4]}` and the like in settings by a `Hole`."""
    return {key: _read(value, f"{path}.{key}".lstrip(".")) for key, value in values.items()}


def write_holes(values: Layer) -> Layer:
    """Undo `read_holes`."""
    written: dict[str, object] = {}
    for key, value in values.items():
        if isinstance(value, Hole):
            written[key] = value.as_setting()
        else:
            written[key] = write_holes(value) if isinstance(value, Mapping) else value
    return written


def find_holes(values: Layer, prefix: str = "") -> Iterator[tuple[str, Hole]]:
    """Yield every hole with its path, e.g. `method.inputs`."""
    for key, value in values.items():
        if isinstance(value, Hole):
            yield f"{prefix}{key}", value
        elif isinstance(value, Mapping):
            yield from find_holes(value, f"{prefix}{key}.")


def fill_holes(values: Layer, suggested: Point, prefix: str = "") -> Layer:
    """Put the suggested values into the holes of settings; holes without a suggestion stay."""
    filled: dict[str, object] = {}
    for key, value in values.items():
        path = f"{prefix}{key}"
        if isinstance(value, Hole):
            filled[key] = value.value(suggested[path]) if path in suggested else value
        else:
            filled[key] = fill_holes(value, suggested, f"{path}.") if isinstance(value, Mapping) else value
    return filled


def _read(value: object, path: str) -> object:
    if not isinstance(value, Mapping):
        return value
    if len(value) == 1 and next(iter(value)) in KINDS:
        return _hole(*next(iter(value.items())), path)
    return read_holes(value, path)


def _hole(kind: str, values: object, path: str) -> Hole:
    if not isinstance(values, list | tuple) or not values:
        raise ConfigError(f"{path}: {kind} takes a list, e.g. {{{kind}: [1, 4]}}, got {values!r}")
    if kind == "choice":
        if len({_choice_name(value) for value in values}) < len(values):
            raise ConfigError(f"{path}: choices must differ, got {list(values)}")
        return Hole(kind, tuple(values))
    if len(values) != 2 or not (_is_number(values[0], kind) and _is_upper_end(values[1], kind)):
        ends = f"whole numbers, or {DEPTH} for the upper end" if kind == "int" else "numbers"
        raise ConfigError(f"{path}: {kind} takes both ends of a range as {ends}, got {list(values)}")
    low, high = values
    if high != DEPTH and not low <= high:
        raise ConfigError(f"{path}: the lower end of a range must not be above the upper end, got {list(values)}")
    if kind == "log" and low <= 0:
        raise ConfigError(f"{path}: a range on a logarithmic scale must be above 0, got {list(values)}")
    return Hole(kind, (low, high))


def _is_upper_end(value: object, kind: str) -> bool:
    return _is_number(value, kind) or (kind == "int" and value == DEPTH)


def _is_number(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (kind != "int" and isinstance(value, float))


def _choice_name(value: object) -> Value:
    return value if isinstance(value, bool | int | float | str) or value is None else json.dumps(value, default=str)
