"""A run's network in torch on its way to another process: a safetensors file, its header in JSON.

The network is described by the config of its run, so that a process can set it up without weights, then load
them and nothing else: what memory that takes is what `peak_memory` measures.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from sae.backbones import MemberNetwork
from sae.config.run import RunConfig
from sae.core.task import Classification, DataSpec, Regression
from sae.data.dataset import Normalisation
from sae.deploy.eager import EagerModel
from sae.deploy.graph import SampleForm, ShippedGraph
from sae.methods import build_method
from sae.methods.sae import Sae
from sae.records.run import RunRecord

HEADER = "network"


@dataclass(frozen=True)
class KnownForm:
    """The samples of a data set that is not loaded."""

    spec: DataSpec
    normalisation: Normalisation
    frame: int


def write_eager(path: Path, run: Path, model: EagerModel) -> None:
    """Write the weights of a run's pruned network, and what else it takes to set it up."""
    spec = model.form.spec
    header = {
        "run": str(run.resolve()),
        "active": model.active,
        "shape": spec.shape,
        "task": asdict(spec.task),
        "normalisation": asdict(model.form.normalisation),
        "frame": model.form.frame,
    }
    arrays = {name: tensor.contiguous() for name, tensor in model.module.state_dict().items()}
    save_file(arrays, path, {HEADER: json.dumps(header)})


def read_eager(path: Path) -> EagerModel:
    """The network of a file, on the meta device: its weights are still to be loaded."""
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()[HEADER])
    task = (Classification if "num_classes" in header["task"] else Regression)(**header["task"])
    normalisation = Normalisation(**{key: tuple(values) for key, values in header["normalisation"].items()})
    form = KnownForm(DataSpec(tuple(header["shape"]), task), normalisation, header["frame"])
    active = tuple(header["active"])
    network = _empty_network(RunRecord.open(Path(header["run"])).config, form, active)
    return EagerModel(ShippedGraph(network, form), form, active)


def load_weights(model: EagerModel, path: Path) -> None:
    """Give a network its weights, which stay where they were read to."""
    model.module.load_state_dict(load_file(path), assign=True)


def _empty_network(config: RunConfig, form: SampleForm, active: tuple[int, ...]) -> MemberNetwork:
    """Pruned as the run's is; which inputs use an exit is in the weights, how many is in its shape."""
    with torch.device("meta"):
        method = build_method(config.method, config.backbone, form.spec, config.seed).eval()
    return (method.pruned_to(active) if isinstance(method, Sae) else method.pruned()).eval()
