"""A run's network in torch, without export: timed beside its graph, and sent to another process as a file.

The file is safetensors with a JSON header. The header names the run, whose config describes the
network, so that a process can build the network without weights and then load only those.
`sae.deploy.bench` measures the memory that this takes.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from sae.backbones import MemberNetwork
from sae.config.run import RunConfig
from sae.core.task import Classification, Counts, DataSpec, MultiLabel, Ordinal, Regression, Task
from sae.data.binding import AS_BEFORE, Whereabouts
from sae.data.dataset import Dataset, Depth, Normalisation
from sae.deploy.graph import SampleForm, ShippedGraph, raw_shape, sample_dtype, shipped_content
from sae.deploy.latency import Call, Maker, random_samples
from sae.methods import Method, build_method
from sae.records.run import RunRecord
from sae.training.run import restore

HEADER = "network"


@dataclass(frozen=True)
class EagerModel:
    """A module from raw samples to predictions.

    Attributes:
        module: The pruned network between preprocessing and aggregation.
        form: The samples that it takes.
        active: How many inputs use each exit; it determines the shape of the pruned network.
    """

    module: ShippedGraph
    form: SampleForm
    active: tuple[int, ...]


@dataclass(frozen=True)
class KnownForm:
    """The form of the samples of a data set that is not loaded."""

    spec: DataSpec
    normalisation: Normalisation
    frame: int
    depth: Depth


def open_run(run: Path, eval_exits: int | None = None, where: Whereabouts = AS_BEFORE) -> tuple[EagerModel, bytes]:
    """Return the pruned network of a run at K′ exits in torch, and its pruned and folded graph."""
    record = RunRecord.open(run)
    method, dataset = restore(record, "cpu", where=where)
    eval_exits = method.resolve_exits(record.exits_to_read(eval_exits))
    return eager_model(method, dataset, eval_exits), shipped_content(method, dataset, eval_exits)


def eager_model(method: Method, dataset: Dataset, eval_exits: int) -> EagerModel:
    """Return the pruned network of a method at K′ exits, not folded."""
    module = ShippedGraph(method.pruned(eval_exits).eval(), dataset)
    return EagerModel(module, dataset, method.active_counts(eval_exits))


def eager_call(model: EagerModel, batch: int) -> Call:
    """Return a function that computes a batch of random samples in torch."""
    samples = torch.from_numpy(random_samples(raw_shape(model.form), sample_dtype(model.form), batch))

    def call() -> object:
        with torch.inference_mode():
            return model.module(samples)

    return call


def eager_maker(model: EagerModel, batch: int) -> Maker:
    """Return a maker for `interleaved`; torch has no sessions, so every call is the same."""
    return lambda: eager_call(model, batch)


def write_eager(path: Path, run: Path, model: EagerModel) -> None:
    """Write the weights of a run's pruned network, and the facts needed to build it."""
    spec = model.form.spec
    header = {
        "run": str(run.resolve()),
        "active": model.active,
        "inputs": model.module.network.num_inputs,
        "shape": spec.shape,
        "task": asdict(spec.task),
        "task_type": type(spec.task).__name__,
        "normalisation": asdict(model.form.normalisation),
        "frame": model.form.frame,
        "depth": model.form.depth,
    }
    arrays = {name: tensor.contiguous() for name, tensor in model.module.state_dict().items()}
    save_file(arrays, path, {HEADER: json.dumps(header)})


def read_eager(path: Path) -> EagerModel:
    """Build the network of a file on the meta device, without its weights."""
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()[HEADER])
    kinds: dict[str, Callable[..., Task]] = {
        kind.__name__: kind for kind in (Classification, Ordinal, MultiLabel, Regression, Counts)
    }
    moments = {key: tuple(value) if isinstance(value, list) else value for key, value in header["task"].items()}
    task = kinds[header["task_type"]](**moments)
    given = header["normalisation"]
    normalisation = Normalisation(tuple(given["mean"]), tuple(given["std"]), given["each_image"])
    form = KnownForm(DataSpec(tuple(header["shape"]), task), normalisation, header["frame"], header["depth"])
    active = tuple(header["active"])
    config = RunRecord.open(Path(header["run"])).read_config()
    network = _empty_network(config, form, active, header["inputs"])
    return EagerModel(ShippedGraph(network, form), form, active)


def load_weights(model: EagerModel, path: Path) -> None:
    """Load the weights of a network, without a copy in memory."""
    model.module.load_state_dict(load_file(path), assign=True)


def _empty_network(config: RunConfig, form: SampleForm, active: tuple[int, ...], inputs: int) -> MemberNetwork:
    """Build a network with the shape of the run's pruned network, without its weights."""
    with torch.device("meta"):
        method = build_method(config.method, config.backbone, form.spec, config.seed).eval()
    return (method.pruned_to(active, inputs) if config.method.has_exits else method.pruned()).eval()
