"""A run's network in torch, without export: what is measured beside its graph."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from sae.data.dataset import Dataset
from sae.deploy.export import graph_content
from sae.deploy.graph import SampleForm, ShippedGraph, raw_shape
from sae.deploy.latency import Call, random_samples
from sae.methods import Method
from sae.records.run import RunRecord
from sae.training.run import restore


@dataclass(frozen=True)
class EagerModel:
    """A module and the samples that it takes, from pixels or features to answers.

    Attributes:
        module: The pruned network between preprocessing and aggregation.
        form: The samples.
        active: How many inputs use each exit, which its pruned shape follows.
    """

    module: ShippedGraph
    form: SampleForm
    active: tuple[int, ...]


def open_run(run: Path, eval_exits: int | None = None) -> tuple[EagerModel, bytes]:
    """The pruned network of a run at K′ exits in torch, and the graph of the same, which is folded, too."""
    method, dataset = restore(RunRecord.open(run), "cpu")
    max_exits = method.resolve_exits(eval_exits)
    return eager_model(method, dataset, max_exits), shipped_content(method, dataset, max_exits)


def eager_model(method: Method, dataset: Dataset, max_exits: int) -> EagerModel:
    """The pruned network of a method at K′ exits, not folded: what torch computes without export."""
    module = ShippedGraph(method.pruned(max_exits).eval(), dataset)
    return EagerModel(module, dataset, method.active_counts(max_exits))


def shipped_content(method: Method, dataset: Dataset, max_exits: int) -> bytes:
    """The graph that would be shipped of a method at K′ exits."""
    return graph_content(ShippedGraph(method.pruned(max_exits).folded(dataset.spec.shape), dataset), dataset)


def eager_call(model: EagerModel, batch: int) -> Call:
    """Computes a batch of random samples in torch."""
    dtype = "uint8" if len(model.form.spec.shape) == 3 else "float32"
    samples = torch.from_numpy(random_samples(raw_shape(model.form), dtype, batch))

    def call() -> object:
        with torch.inference_mode():
            return model.module(samples)

    return call


def eager_maker(model: EagerModel, batch: int) -> Callable[[], Call]:
    """Makes a network ready; torch has no sessions, so that each is the same."""
    return lambda: eager_call(model, batch)
