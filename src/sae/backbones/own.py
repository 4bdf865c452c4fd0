"""Networks from a user's file: `my_nets.py:make_resnet`, a function that returns a module."""

import importlib.util
import inspect
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import torch
from torch import nn

from sae.backbones.base import Backbone
from sae.backbones.survey import suggest_exits
from sae.backbones.weights import checked_file, load_weights
from sae.backbones.wrapped import SPREAD, Blueprint, uncut_sentence
from sae.config.backbones import OwnConfig
from sae.config.settings import Values
from sae.core.errors import ConfigError, UncutWarning
from sae.core.task import Shape
from sae.core.trust import file_and_function, sha256_of_file, trusted_file


def build_own(settings: OwnConfig, shape: Shape, num_inputs: int = 1) -> Backbone:
    """Build a backbone from the user's function, if its code is trusted and has not changed."""
    trusted_file(settings.name, settings.sha256)
    blueprint = _blueprint(settings, shape)
    backbone = blueprint.build(shape, num_inputs)
    if backbone.uncut_reason is not None:
        warnings.warn(uncut_sentence(settings.name, backbone.uncut_reason), UncutWarning, stacklevel=2)
    return backbone


@cache
def _blueprint(settings: OwnConfig, shape: Shape) -> Blueprint:
    make = read_function(settings.name, shape)
    exits = settings.exits[: settings.depth]
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        template = make()
    if settings.weights_file is not None:
        load_weights(template, checked_file(settings.weights_file, settings.weights_sha256))
    kinds = dict(zip(exits, settings.kinds, strict=False))
    return Blueprint(template, make, exits, settings.widen, kinds, settings.pretrained, SPREAD)


def describe_own(source: str, shape: Shape, exits: Sequence[str] | None = None) -> Values:
    """Return the settings that follow from the code of a user's network: its hash, its exits and their number.

    Args:
        source: The name of a function in a file.
        shape: The shape of one sample.
        exits: Names of submodules; by default those that `suggest_exits` proposes.
    """
    file = trusted_file(source)
    if exits is None:
        with torch.random.fork_rng(devices=[]):
            exits = suggest_exits(read_function(source, shape)(), torch.zeros(shape))
    return {"sha256": sha256_of_file(file), "exits": list(exits), "depth": len(exits)}


def read_function(source: str, shape: Shape) -> Callable[[], nn.Module]:
    """Import the user's file and return its function, ready to be called.

    A function with a parameter gets the shape of a sample.
    """
    file, name = file_and_function(source)
    module = _import_file(file.resolve(), sha256_of_file(file))
    function = getattr(module, name, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise ConfigError(f"{file} must have a function {name}, but it has {', '.join(known) or 'none'}")
    takes_shape = any(
        parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        for parameter in inspect.signature(function).parameters.values()
    )

    def make() -> nn.Module:
        try:
            made = function(shape) if takes_shape else function()
        except Exception as error:
            raise ConfigError(
                f"{source} must return a network, but it fails: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(made, nn.Module):
            raise ConfigError(f"{source} must return a torch.nn.Module, got {type(made).__name__}")
        return made

    return make


@cache
def _import_file(file: Path, sha256: str) -> object:
    """Import a file as `python FILE` would: it can import modules beside it."""
    name = f"sae_own_{sha256[:16]}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, f"the name of {file} ends in .py"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(file.parent))
    return module
