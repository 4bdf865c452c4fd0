"""What can be trained and compared. To add a method: a file, its settings, and a line below."""

from collections.abc import Callable
from typing import Any

import torch

from sae.config.run import BackboneConfig, MethodConfig
from sae.core.seeds import derive_seed
from sae.core.task import DataSpec
from sae.methods.base import Batch, Loss, Members, Method, ParameterGroup
from sae.methods.batch_ensemble import BatchEnsemble
from sae.methods.deep_ensemble import DeepEnsemble
from sae.methods.mc_dropout import McDropout
from sae.methods.sae import Sae

METHODS: dict[str, Callable[[Any, BackboneConfig, DataSpec], Method]] = {
    "sae": Sae,
    "standard": DeepEnsemble,
    "ensemble": DeepEnsemble,
    "mc_dropout": McDropout,
    "batch_ensemble": BatchEnsemble,
}


def build_method(method: MethodConfig, backbone: BackboneConfig, spec: DataSpec, seed: int = 0) -> Method:
    """A method with fresh weights that depend on `seed` alone; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, "weights"))
        built = METHODS[method.name](method, backbone, spec)
    built.seed = seed
    return built


__all__ = ["METHODS", "Batch", "Loss", "Members", "Method", "ParameterGroup", "build_method"]
