"""`torch.compile` of the networks of a training step, for `train.compile`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from sae.core.errors import ConfigError


class CompiledCalls:
    """Compiled versions of some networks, which replace their `forward` within a context.

    Only training steps run compiled: evaluation, pruning and export use the network itself.

    A network is compiled as one graph, so that a part that cannot be compiled is an error and never silently runs
    uncompiled. There is a graph for each batch size; usually there are two, because the last batch is smaller. One
    graph for all sizes would depend on the size that came first, and a resumed run could round differently.

    Args:
        networks: The networks that training calls.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        self._forwards: list[tuple[nn.Module, Callable[..., Tensor]]] = [
            (network, torch.compile(network.forward, fullgraph=True, dynamic=False)) for network in networks
        ]

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let the networks run compiled within the context; a failure to compile becomes a `ConfigError`."""
        from torch._dynamo.exc import FailOnRecompileLimitHit, TorchDynamoException

        for network, forward in self._forwards:
            network.forward = forward
        try:
            yield
        except (TorchDynamoException, FailOnRecompileLimitHit) as error:
            raise ConfigError(
                f"train.compile must be false here, because torch.compile failed: {_reason(error)}"
            ) from error
        finally:
            for network, _ in self._forwards:
                del network.forward


def _reason(error: Exception) -> str:
    """Return the first informative line of an error, as the end of a sentence."""
    lines = [line.strip() for line in str(error).splitlines()]
    informative = [line for line in lines if line and not line.endswith("raised:")]
    return informative[0] if informative else type(error).__name__
