"""Commands that train a configuration again, on any machine with the data."""

import json
import math
import shlex
from collections.abc import Mapping
from functools import cache

import yaml

from sae.config.run import RunConfig
from sae.config.settings import Layer, Settings, Values, flatten, from_assignments
from sae.core.errors import ConfigError, DataError
from sae.core.trust import is_source
from sae.data.catalogue import resolve

TARGET, QUOTE = "data.target", '"'
FLAGS = {
    "data.name": "--data",
    "data.task": "--task",
    TARGET: "--target",
    "data.kind": "--kind",
    "data.size": "--size",
    "method.name": "--method",
    "method.inputs": "--inputs",
    "method.exits": "--exits",
    "method.members": "--members",
    "method.samples": "--samples",
    "method.rate": "--rate",
    "backbone.name": "--backbone",
    "backbone.width": "--width",
    "backbone.depth": "--depth",
    "backbone.blocks": "--blocks",
    "train.epochs": "--epochs",
    "teacher.run": "--teacher",
    "seed": "--seed",
}
"""Flags of `sae train` by setting, in reading order."""
Sections = dict[int, Values]
"""The settings of sections by their identity: thousands of configs of a study share most of them."""


def train_command(config: RunConfig, out: str = "runs/again") -> str:
    """Return the command that trains exactly this configuration again.

    It names only the settings that differ from the defaults of `sae train` for this data. If the data is
    not on this machine, its defaults are unknown, and the command names all settings.

    Args:
        config: Configuration to train.
        out: Run folder in the command.

    Example:
        >>> from sae.data.catalogue import resolve
        >>> train_command(resolve({"data": "digits", "method": {"inputs": 3}, "train": {"lr": 1e-4}}))
        'sae train --data digits --inputs 3 --set train.lr=0.0001 --out runs/again'
    """
    return _command(config, _flat(config, {}), _defaults(config), out)


def train_commands(configs: Mapping[str, RunConfig]) -> dict[str, str]:
    """Return the command of each of many configurations; defaults that several share are looked up once."""
    known: dict[str, Values] = {}
    sections: Sections = {}
    data: dict[int, str] = {}
    commands = {}
    for name, config in configs.items():
        values = _flat(config, sections)
        if id(config.data) not in data:
            data[id(config.data)] = json.dumps(sections[id(config.data)])
        key = data[id(config.data)] + json.dumps([_named(config.method), _named(config.backbone)])
        if key not in known:
            known[key] = _defaults(config)
        commands[name] = _command(config, values, known[key])
    return commands


def _named(settings: Settings) -> Values:
    """Return what the defaults of a method or backbone depend on: its name, and what has no default."""
    return {"name": getattr(settings, "name", None), **_required(settings)}


def _command(config: RunConfig, values: Values, defaults: Values, out: str = "runs/again") -> str:
    """Return the command that trains a configuration with these settings, naming only what differs from defaults."""
    named = dict.fromkeys(_settings_to_name(values, defaults))
    flagged = [key for key in FLAGS if key in named and values[key] not in (None, "")]  # empty words are refused
    if TARGET in flagged and any(
        name != name.strip() or "\n" in name or "\r" in name for name in _names(values[TARGET])
    ):
        flagged.remove(TARGET)  # a list of names loses spaces and line breaks
    words = [
        word for key in flagged for word in _flag(FLAGS[key], _listed(values[key]) if key == TARGET else values[key])
    ]
    words += [word for key in named if key not in flagged for word in ("--set", _assignment(key, values[key]))]
    trust = ["--trust-code"] if is_source(config.backbone.name) else []
    return shlex.join(["sae", "train", *words, *trust, *_flag("--out", out)])


def _flat(config: RunConfig, known: Sections) -> Values:
    """Return all settings by their paths, also those that files leave out at their defaults."""
    given = {name: getattr(config, name) for name in type(config).model_fields}
    single = {name for name, value in given.items() if not isinstance(value, Settings)}
    dumped = config.model_dump(mode="json", include=single)
    values: Values = {}
    for name, value in given.items():
        if name in single:
            values[name] = dumped.get(name, value)
            continue
        if id(value) not in known:
            section = value.model_dump(mode="json")
            _complete(section, value)
            known[id(value)] = dict(flatten(section, f"{name}."))
        values |= known[id(value)]
    return values


def _complete(values: Values, settings: Settings) -> None:
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, Settings):
            _complete(values[name], value)
        else:
            values.setdefault(name, value)


def _defaults(config: RunConfig) -> Values:
    """Return the settings that `sae train` uses for this data, method and backbone by default.

    Without the names of method and backbone where these are not the default; empty if the data cannot be read.
    """
    kind = {} if config.data.kind is None else {"kind": config.data.kind}
    data = {"data": {"name": config.data.name, **kind}}
    try:
        usual = resolve(data)
        other = {
            key: {"name": getattr(config, key).name, **_required(getattr(config, key))}
            for key in ("method", "backbone")
            if getattr(config, key).name != getattr(usual, key).name
        }
        base = _flat(resolve(data, other), {})
    except (DataError, ModuleNotFoundError):  # reading own data may need packages that `sae pick` does not
        return {}
    without = {f"{section}.{key}" for section, values in other.items() for key in values}
    return {key: value for key, value in base.items() if key not in without}


def _required(settings: Settings) -> Values:
    """Return the settings that have no default, and whether weights are kept, on which other defaults depend."""
    names = _required_names(type(settings))
    return settings.model_dump(mode="json", include=names, exclude_defaults=True) if names else {}


@cache
def _required_names(settings: type[Settings]) -> set[str]:
    return {key for key, field in settings.model_fields.items() if field.is_required() or key == "pretrained"}


def _settings_to_name(values: Layer, defaults: Layer) -> list[str]:
    """Return the data and the settings that differ from the defaults.

    The kind of the data is named if it was given: without it, other defaults would apply. A schedule
    is named with both its ends.
    """
    always = [key for key in ("data.name", "data.kind") if values.get(key) is not None]
    differ = {key for key in values if key in always or key not in defaults or values[key] != defaults[key]}
    schedules = {key.rpartition(".")[0] for key in differ if key.count(".") > 1}
    return [key for key in values if key in differ or key.rpartition(".")[0] in schedules]


def _names(target: object) -> list[str]:
    return [str(name) for name in target] if isinstance(target, list) else [str(target)]


def _listed(target: object) -> list[str]:
    """Return the names of the columns to predict, quoted as in CSV where they hold commas or quotes."""
    return [f'"{name.replace(QUOTE, 2 * QUOTE)}"' if {",", QUOTE} & {*name} else name for name in _names(target)]


def _flag(flag: str, value: object) -> list[str]:
    """Return a flag and its value, joined by `=` if the value looks like a flag."""
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)  # str of a float is exact
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def _assignment(key: str, value: object) -> str:
    """Return `key=value`, quoted if needed to be read as exactly this value."""
    if isinstance(value, float) and math.isfinite(value):
        return f"{key}={value!r}"  # as JSON has it, and faster; there are thousands
    if not isinstance(value, str):
        return f"{key}={json.dumps(value)}"
    if _is_read_as_itself(value):
        return f"{key}={value}"
    quoted = yaml.safe_dump(value, default_style='"', width=math.inf)
    return f"{key}={quoted.strip()}"


def _is_read_as_itself(text: str) -> bool:
    try:
        return from_assignments([f"key={text}"]) == {"key": text}
    except ConfigError:
        return False
