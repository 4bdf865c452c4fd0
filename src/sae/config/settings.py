"""How settings are merged, checked and told apart, whatever they are settings of.

A `Settings` model is frozen and refuses unknown keys, suggesting the nearest known one.
What is wrong is said in one sentence, by the path of the setting.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from sae.core.errors import ConfigError, did_you_mean

try:
    from yaml import CSafeLoader as SafeLoader  # a study is hundreds of configs: it reads them 7 × faster
except ImportError:
    from yaml import SafeLoader  # type: ignore[assignment]

Layer = Mapping[str, Any]


class Settings(BaseModel):
    """A frozen group of settings that refuses what it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


Model = TypeVar("Model", bound=Settings)


def merge(below: Layer, above: Layer) -> dict[str, Any]:
    """Lay one mapping over another, section by section.

    A section that names something else (`method: {name: standard}` over `sae`) replaces the
    one below it, because the settings of the one mean nothing to the other. A section may be
    given by its name alone.

    Example:
        >>> merge({"method": {"name": "sae", "inputs": 2}}, {"method": "standard"})
        {'method': {'name': 'standard'}}
    """
    merged = dict(below)
    for key, value in above.items():
        merged[key] = _lay_over(key, merged.get(key), value)
    return merged


def _lay_over(key: str, below: Any, above: Any) -> Any:
    if isinstance(below, str) and isinstance(above, Mapping):
        below = {"name": below}
    if isinstance(above, str) and isinstance(below, Mapping):
        above = {"name": above}
    if below is None or not (isinstance(below, Mapping) or isinstance(above, Mapping)):
        return above
    for layer in (below, above):
        if not isinstance(layer, Mapping):
            raise ConfigError(f"{key} must be a section of settings, got {layer!r}")
    is_same_kind = "name" not in above or above["name"] == below.get("name", above["name"])
    return merge(below, above) if is_same_kind else above


def section_name(section: Any) -> Any:
    """The name in a section of settings, which may be given by its name alone; None where nothing is named.

    What stands there is not checked: before settings are parsed it may be anything.

    Example:
        >>> section_name("sae"), section_name({"name": "sae", "inputs": 2}), section_name({"inputs": 2})
        ('sae', 'sae', None)
    """
    return section.get("name") if isinstance(section, Mapping) else section


def parse(model: type[Model], values: Layer) -> Model:
    """Check a plain mapping against a model; what is wrong is said in one sentence."""
    problem = next(_problems(model, values, ""), None)
    if problem:
        raise ConfigError(problem)
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(_first_sentence(model, error)) from None


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a mapping from a YAML file (safe loader: nothing in it is executed)."""
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise ConfigError(f"config file must be readable, got {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = str(error).replace("\n", " ")
        raise ConfigError(f"config file must be YAML, however {path} is not: {where}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"config file must hold a mapping, however {path} holds a {type(values).__name__}")
    return values


def to_yaml(config: Settings) -> str:
    """All settings, also those that are at their default, as YAML."""
    return yaml.dump(config.model_dump(mode="json"), Dumper=_Dumper, sort_keys=False)


def from_assignments(assignments: list[str]) -> dict[str, Any]:
    """Read `train.lr=1e-3` and its like as a layer; values are YAML.

    Example:
        >>> from_assignments(["train.lr=1e-3", "data.flip=true"])
        {'train': {'lr': 0.001}, 'data': {'flip': True}}
    """
    layer: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not all(path.split(".")):
            raise ConfigError(f"--set takes section.key=value, got {assignment!r}")
        nested: Any = _read_value(text)
        for key in reversed(path.split(".")):
            nested = {key: nested}
        layer = merge(layer, nested)
    return layer


def differences(one: Settings, other: Settings) -> list[str]:
    """The keys in which two configs of the same kind differ, each with both values."""
    left, right = (dict(flatten(config.model_dump(mode="json"))) for config in (one, other))
    keys = [*left, *(key for key in right if key not in left)]
    return [f"{key} {left.get(key)} → {right.get(key)}" for key in keys if left.get(key) != right.get(key)]


class _Loader(SafeLoader):
    """Executes nothing, and refuses a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep) for key, _ in node.value]
        twice = next((key for index, key in enumerate(keys) if key in keys[:index]), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"{twice!r} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Quotes every string that `_Loader` would read as something else."""


for _side in (_Loader, _Dumper):  # YAML 1.1 reads 1e-3 as a string, everybody else as a number
    _side.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
    )


def _read_value(text: str) -> Any:
    try:
        value = yaml.load(text, _Loader)
    except yaml.YAMLError:
        raise ConfigError(f"--set takes a value that is YAML, got {text!r}") from None
    return value


def flatten(values: Layer, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting by its path, `train.lr`."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _models_of(annotation: Any) -> list[type[Settings]]:
    """The settings models in a field's type: one, a union's, or none."""
    candidates = [annotation, *get_args(annotation)]
    return [item for item in candidates if isinstance(item, type) and issubclass(item, Settings)]


def _problems(model: type[Settings], values: Layer, prefix: str) -> Iterator[str]:
    """A sentence for each key that the model does not know, and for each `true` that would pass for the number 1."""
    for key, value in values.items():
        if key not in model.model_fields:
            yield _unknown(f"{prefix}{key}", str(key), model, prefix)
            continue
        if isinstance(value, bool) and model.model_fields[key].annotation is not bool:
            yield f"{prefix}{key} must not be true or false"
        models = _models_of(model.model_fields[key].annotation)
        if not models or not isinstance(value, Mapping):
            continue
        name = value.get("name")
        named = [m for m in models if "name" in m.model_fields and m.model_fields["name"].default == name]
        if len(models) > 1 and not named:
            known = ", ".join(str(m.model_fields["name"].default) for m in models)
            yield f"{prefix}{key}.name must be one of {known}; got {name!r}{did_you_mean(str(name), known.split(', '))}"
        else:
            yield from _problems((named or models)[0], value, f"{prefix}{key}.")


def _unknown(path: str, key: str, model: type[Settings], prefix: str) -> str:
    known = list(model.model_fields)
    owner = f" for {model.model_fields['name'].default}" if _is_named(model) else ""
    listed = ", ".join(f"{prefix}{name}" for name in known)
    return f"unknown setting {path}{owner}{did_you_mean(key, known, prefix)}; known: {listed}"


def _is_named(model: type[Settings]) -> bool:
    return "name" in model.model_fields and isinstance(model.model_fields["name"].default, str)


def _first_sentence(model: type[Settings], error: ValidationError) -> str:
    """Pydantic's first complaint as `path must …, got …`."""
    first = error.errors()[0]
    path = ".".join(_setting_path(model, first["loc"]))
    message = (
        first["msg"]
        .removeprefix("Value error, ")
        .replace("Input should", "must", 1)
        .replace("Field required", "is required", 1)
    )
    given = "" if first["type"] == "missing" else f", got {first['input']!r}"
    return f"{path} {message}{given}"


def _setting_path(model: type[Settings], loc: tuple[int | str, ...]) -> Iterator[str]:
    """Where a complaint is, without the tags by which pydantic tells the members of a union apart."""
    options = [model]
    for part in loc:
        named = [option for option in options if _is_named(option) and option.model_fields["name"].default == part]
        if len(options) > 1 and named:
            options = named
            continue
        yield str(part)
        field = options[0].model_fields.get(str(part)) if options else None
        options = _models_of(field.annotation) if field else []
