"""Methods that can be trained and compared. To add one: a class, and settings in the registry of `config.methods`."""

import torch

from sae.config.backbones import BackboneSource
from sae.config.methods import METHODS, MethodSettings
from sae.core.errors import ConfigError
from sae.core.registry import resolve_reference
from sae.core.seeds import derive_seed
from sae.core.task import DataSpec
from sae.methods.base import Batch, Loss, Members, Method, ParameterGroup


def build_method(method: MethodSettings, backbone: BackboneSource, spec: DataSpec, seed: int = 0) -> Method:
    """Build a method with fresh weights that depend on `seed` alone; the global generator does not change.

    Args:
        method: Its settings; those that were not given may have other defaults on this backbone.
        backbone: The settings of a backbone, or a module that was wrapped by `sae.wrap`.
        spec: The shape of samples and the task.
        seed: The seed of the weights.
    """
    _check_types(method, backbone, spec)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, "weights"))
        built = construct(method, backbone, spec)
    built.seed = seed
    return built


def construct(method: MethodSettings, backbone: BackboneSource, spec: DataSpec) -> Method:
    """Build a method with weights from the global generator, on torch's current device."""
    settings = method.with_defaults(backbone.method_defaults) if backbone.method_defaults else method
    built: Method = resolve_reference(METHODS.get(method.name).build)(settings, backbone, spec)
    return built


def _check_types(method: object, backbone: object, spec: object) -> None:
    """Refuse arguments of a wrong type that are easily given: names, and modules that are not wrapped."""
    if not isinstance(method, MethodSettings):
        raise ConfigError(f"method must be settings such as SaeConfig(inputs=2, exits=2), got {type(method).__name__}")
    if not hasattr(backbone, "method_defaults"):
        raise ConfigError(
            f"backbone must be the settings of a backbone or a wrapped module, got {type(backbone).__name__}: "
            "give sae.wrap(module, sample) for a module of your own"
        )
    if not isinstance(spec, DataSpec):
        raise ConfigError(
            f"spec must be a DataSpec, got {type(spec).__name__}: a wrapped module has one, sae.wrap(…, outputs=3).spec"
        )


__all__ = ["Batch", "Loss", "Members", "Method", "ParameterGroup", "build_method", "construct"]
