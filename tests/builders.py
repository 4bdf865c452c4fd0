"""Small networks and data that many tests start from."""

from typing import Any

import numpy as np
import pytest
import torch

from sae.config.backbones import BACKBONES, BackboneSettings
from sae.config.methods import METHODS, MethodSettings
from sae.config.run import NetworkConfig, RunConfig, parse_run
from sae.config.settings import parse
from sae.core.errors import ConfigError
from sae.core.task import Classification, DataSpec, Regression, Shape, Task
from sae.data.dataset import Dataset, Normalisation, Split
from sae.methods import Method, build_method
from sae.methods.sae import Sae

BACKBONE_NAMES = ", ".join(BACKBONES.names())
SMALL_BACKBONES: dict[str, BackboneSettings] = {
    entry.name: entry.settings.model_validate(entry.small) for entry in BACKBONES
}
SHAPES: dict[str, Shape] = {entry.name: entry.sample for entry in BACKBONES}
"""The shape of a small sample for each backbone."""
SMALL_METHODS: dict[str, dict[str, Any]] = {entry.name: {"name": entry.name, **entry.small} for entry in METHODS}

SHAPE = SHAPES["fc"]
SPEC = DataSpec(SHAPE, Classification(3))
REGRESSION_SPEC = DataSpec(SHAPE, Regression(mean=5.0, std=2.0))


def spec_of(backbone: str, task: Task | None = None) -> DataSpec:
    return DataSpec(SHAPES[backbone], task or SPEC.task)


def method_settings(name: str) -> MethodSettings:
    values = {"method": SMALL_METHODS[name], "backbone": {"name": "fc"}}
    return parse(NetworkConfig, values).method


def skip_refused(name: str, backbone: str) -> None:
    """Skip a test of a method on a backbone that it refuses; `test_methods` names these pairs."""
    try:
        method_settings(name).check(SMALL_BACKBONES[backbone])
    except ConfigError as error:
        pytest.skip(str(error))


def small_method(name: str, backbone: str, spec: DataSpec | None = None, seed: int = 0) -> Method:
    skip_refused(name, backbone)
    return build_method(method_settings(name), SMALL_BACKBONES[backbone], spec or spec_of(backbone), seed)


def small_sae(backbone: str, num_inputs: int, exits: int, seed: int = 0, spec: DataSpec | None = None) -> Sae:
    """An SAE whose exits disagree about their worth, and whose BatchNorms have seen some data."""
    values = {"method": {"name": "sae", "inputs": num_inputs, "exits": exits}, "backbone": {"name": "fc"}}
    spec = spec or spec_of(backbone)
    method = build_method(parse(NetworkConfig, values).method, SMALL_BACKBONES[backbone], spec, seed)
    assert isinstance(method, Sae)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        method.exit_distribution.logits.copy_(
            torch.randn(method.exit_distribution.logits.shape, generator=generator) * 0.1
        )
        method.train()
        method.network(torch.randn(16, num_inputs, *spec.shape, generator=generator))
    method.eval()
    return method


def blobs(task: Task, num_samples: int = 96, shape: tuple[int, ...] = SHAPE, seed: int = 0) -> Dataset:
    """Noise with a pattern for each class: easy, but not learnt by a network that is wired wrongly."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, num_samples)
    patterns = rng.normal(size=(3, *shape))
    inputs = (patterns[labels] + 0.3 * rng.normal(size=(num_samples, *shape))).astype(np.float32)
    targets = labels if isinstance(task, Classification) else (labels * 2.0 + 3.0).astype(np.float32)
    split = Split(inputs, targets)
    normalisation = Normalisation((0.0,) * shape[0], (1.0,) * shape[0])
    return Dataset("blobs", DataSpec(shape, task), normalisation, split, split, split)


def run_config(**layers: Any) -> RunConfig:
    """A config for tests; sections are laid over small defaults."""
    base = {"data": {"name": "digits"}, "backbone": {"name": "fc", "depth": 2}, "method": {"name": "sae"}}
    return parse_run(base, {"train": {"epochs": 2, "lr": 1e-3}}, layers)
