"""Fine-tuning: parts of a backbone that do not train."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from sae.backbones.base import Backbone
from sae.backbones.surgery import BATCH_NORMS
from sae.config.run import TrainConfig
from sae.core.errors import ConfigError
from sae.methods import Method

PLACE = re.compile(r"(stem|stages\.\d+)\.(module\.)?")
"""The part of a parameter's name that says where the module was cut."""


@contextmanager
def training(method: Method, settings: TrainConfig) -> Iterator[None]:
    """Put a method into training mode within the context, all but the frozen parts of its backbones."""
    method.train()
    if settings.frozen_batch_norm:
        for module in (module for backbone in _backbones(method) for module in backbone.modules()):
            if isinstance(module, BATCH_NORMS):
                module.eval()
    frozen = frozen_parameters(method, settings.freeze)
    for parameter in frozen:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in frozen:  # elsewhere a parameter without a gradient is one that does not count
            parameter.requires_grad_(True)


def frozen_parameters(method: Method, freeze: int | str) -> list[nn.Parameter]:
    """Return the parameters that do not train.

    Args:
        method: The method.
        freeze: How many parts of each backbone are frozen, the stem and then its stages; or the name of the last
            frozen submodule, in the order in which they run.
    """
    if not freeze:
        return []
    parts = (
        _first_parts(each, freeze) if isinstance(freeze, int) else _up_to(each, freeze) for each in _backbones(method)
    )
    return [parameter for frozen in parts for parameter in frozen]


def _backbones(method: Method) -> list[Backbone]:
    return [module for module in method.modules() if isinstance(module, Backbone)]


def _first_parts(backbone: Backbone, count: int) -> list[nn.Parameter]:
    if count > backbone.depth + 1:
        raise ConfigError(
            f"train.freeze must be at most {backbone.depth + 1}, the stem and {backbone.depth} stages, got {count}"
        )
    parts = [backbone.stem, *backbone.stages][:count]
    return [parameter for part in parts for parameter in part.parameters()]


def _up_to(backbone: Backbone, name: str) -> list[nn.Parameter]:
    named = list(backbone.named_parameters())
    names = [(path, PLACE.sub("", path, count=1)) for path, _ in named]
    places = [place for place, either in enumerate(names) if any(f"{path}.".startswith(f"{name}.") for path in either)]
    if not places:
        known = list(dict.fromkeys(path.rpartition(".")[0] for _, path in names))
        raise ConfigError(
            f"train.freeze must be a number, or the name of a part of the network with weights, such as "
            f"{', '.join(known[:3])} … {known[-1]}, got {name!r}"
        )
    return [parameter for _, parameter in named[: places[-1] + 1]]
