"""Recorded networks of small methods, as training leaves them, and networks as they are counted for shipping."""

import copy
from typing import TypeVar

from torch import nn

from sae.analysis.network_plan import NetworkPlan, network_plan
from sae.backbones.surgery import fuse_batch_norms
from sae.config.run import RunConfig
from sae.core.task import Shape
from sae.methods import Method
from sae.records.network import Network
from sae.training.evaluator import describe_network, measure_costs
from tests.builders import SMALL_BACKBONES, SMALL_METHODS, run_config, small_method, small_sae, spec_of

Module = TypeVar("Module", bound=nn.Module)


def without_batch_norm(network: Module, shape: Shape) -> Module:
    """A copy in which each BatchNorm behind a layer with weights is fused into it."""
    copied = copy.deepcopy(network)
    fuse_batch_norms(copied, shape)
    return copied


def network_config(backbone: str, method: dict[str, object]) -> RunConfig:
    return run_config(method=method, backbone=SMALL_BACKBONES[backbone].model_dump())


def recorded(method: Method, config: RunConfig) -> Network:
    spec = spec_of(config.backbone.name)
    return describe_network(method, config.method, spec, measure_costs(method, spec))


def plan_of(name: str, backbone: str = "fc", label: str = "run") -> NetworkPlan:
    """The plan of a small method."""
    config = network_config(backbone, SMALL_METHODS[name])
    network = recorded(small_method(name, backbone), config)
    return network_plan(network, config, label, network.exits)


def sae_plan(num_inputs: int, exits: int, backbone: str = "fc", eval_exits: int | None = None) -> NetworkPlan:
    """The plan of a small SAE whose inputs prefer different exits."""
    config = network_config(backbone, {"name": "sae", "inputs": num_inputs, "exits": exits})
    network = recorded(small_sae(backbone, num_inputs, exits), config)
    return network_plan(network, config, "run", eval_exits or exits)
