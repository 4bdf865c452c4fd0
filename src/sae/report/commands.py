"""Commands that a reader of results can type: they say all that is to be said, and need no folder of ours."""

import json
import math
import shlex
from typing import Any

import yaml

from sae.config.run import RunConfig
from sae.config.settings import flatten, from_assignments
from sae.core.errors import ConfigError, DataError
from sae.data.catalogue import resolve

FLAGS = {
    "data.name": "--data",
    "data.task": "--task",
    "data.target": "--target",
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
    "seed": "--seed",
}
"""The settings that `sae train` has a flag for, in the order in which people read them."""


def train_command(config: RunConfig, out: str = "runs/again") -> str:
    """The command that trains exactly this configuration again, wherever the data is.

    It says what differs from what `sae train` takes by itself for this data. Where the data is not
    here, what it suggests cannot be known, and the command says everything.

    Args:
        config: What is to be trained.
        out: The run folder that the command names.

    Example:
        >>> from sae.data.catalogue import resolve
        >>> train_command(resolve({"data": "digits", "method": {"inputs": 3}, "train": {"lr": 1e-4}}))
        'sae train --data digits --inputs 3 --set train.lr=0.0001 --out runs/again'
    """
    values = _flat(config)
    said = _to_be_said(values, _taken_by_itself(config))
    flagged = [key for key in FLAGS if key in said and values[key] is not None]
    words = [word for key in flagged for word in _flag(FLAGS[key], values[key])]
    words += [word for key in said if key not in flagged for word in ("--set", _assignment(key, values[key]))]
    return shlex.join(["sae", "train", *words, *_flag("--out", out)])


def _flat(config: RunConfig) -> dict[str, Any]:
    return dict(flatten(config.model_dump(mode="json")))


def _taken_by_itself(config: RunConfig) -> dict[str, Any]:
    """What `sae train` takes for the data, the method and the backbone, those that it would not take itself left out.

    Empty where the data cannot be asked.
    """
    data = {"data": {"name": config.data.name}}
    try:
        usual = resolve(data)
        other = {
            key: {"name": getattr(config, key).name}
            for key in ("method", "backbone")
            if getattr(config, key).name != getattr(usual, key).name
        }
        base = _flat(resolve(data, other))
    except (DataError, ModuleNotFoundError):  # own data is looked at by packages that `sae pick` does without
        return {}
    return {key: value for key, value in base.items() if key.removesuffix(".name") not in other}


def _to_be_said(values: dict[str, Any], usual: dict[str, Any]) -> list[str]:
    """The data, what differs from what is usual, and of a schedule that differs both ends: it is given as a whole."""
    differ = {key for key in values if key == "data.name" or key not in usual or values[key] != usual[key]}
    schedules = {key.rpartition(".")[0] for key in differ if key.count(".") > 1}
    return [key for key in values if key in differ or key.rpartition(".")[0] in schedules]


def _flag(flag: str, value: Any) -> list[str]:
    """A flag and its value; joined where the value could be taken for another flag."""
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)  # of a float the shortest that is exact
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def _assignment(key: str, value: Any) -> str:
    """`key=value` that is read as this very value."""
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
