"""Where jobs run: in processes of this machine, or on a Ray cluster."""

from sae.search.executors.base import Executor

__all__ = ["Executor"]
