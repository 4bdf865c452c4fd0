"""Methods that can be trained and compared. To add one: a class, and settings in the registry of `config.methods`."""

import torch

from sae.config.backbones import BackboneSettings
from sae.config.methods import METHODS, MethodSettings
from sae.core.registry import resolve_reference
from sae.core.seeds import derive_seed
from sae.core.task import DataSpec
from sae.methods.base import Batch, Loss, Members, Method, ParameterGroup


def build_method(method: MethodSettings, backbone: BackboneSettings, spec: DataSpec, seed: int = 0) -> Method:
    """Build a method with fresh weights that depend on `seed` alone; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, "weights"))
        built = construct(method, backbone, spec)
    built.seed = seed
    return built


def construct(method: MethodSettings, backbone: BackboneSettings, spec: DataSpec) -> Method:
    """Build a method with weights from the global generator, on torch's present device."""
    built: Method = resolve_reference(METHODS.get(method.name).build)(method, backbone, spec)
    return built


__all__ = ["Batch", "Loss", "Members", "Method", "ParameterGroup", "build_method", "construct"]
