"""From a run to the file that is shipped: pruned, folded, checked and described."""

import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sae.config.run import RunConfig, SaeConfig
from sae.core.predictive import Categorical, Gaussian
from sae.core.task import Classification
from sae.core.version import __version__
from sae.data.dataset import Dataset, Split
from sae.data.summary import class_titles
from sae.deploy.adaptive_export import adaptive_part, cut
from sae.deploy.conformal import calibrate, class_scores, class_sets, intervals, value_scores
from sae.deploy.destination import already_there, write_model
from sae.deploy.exit_rule import ExitTarget
from sae.deploy.graph import ShippedGraph, raw_shape
from sae.deploy.manifest import (
    ColumnPart,
    ConformalPart,
    CostPart,
    GraphPart,
    InputPart,
    Manifest,
    MemberPart,
    NetworkPart,
    RunPart,
    TargetPart,
    sha256_of,
)
from sae.deploy.onnx_file import to_onnx
from sae.deploy.parity import check_parity, without_frame
from sae.deploy.quantisation import calibration_samples, check_finite, describe_quantisation, quantise
from sae.deploy.segments import check_adaptive
from sae.deploy.session import CHUNK, Session
from sae.ensemble.pruning import PrunedNetwork
from sae.methods import Method
from sae.records.run import RunRecord
from sae.training.evaluator import describe_exits, measure_predictive
from sae.training.run import restore, torch_threads

TRIED_COVERAGE = 0.9
SMALLEST_PROBABILITY = float(np.finfo(np.float32).tiny)


def export(
    run: Path,
    out: Path,
    eval_exits: int | None = None,
    *,
    adaptive: ExitTarget | None = None,
    force: bool = False,
    int8: bool = False,
) -> Manifest:
    """Write a run's network as ONNX, and its manifest beside it; nothing is written unless both are right.

    Args:
        run: The run folder.
        out: The `.onnx` file; its folder holds this one model.
        eval_exits: K′ to ship; by default the trained K.
        adaptive: Write stages for adaptive exits too, their threshold calibrated to this.
        force: Replace another model that `out` and its folder hold.
        int8: Quantise it, once it is shown that the graph in float32 is right.
    """
    record = RunRecord.open(run)
    with torch_threads(record.config.train.threads):
        method, dataset = restore(record, "cpu")
        max_exits = method.resolve_exits(eval_exits)
        identity = _run_part(record)
        found = already_there(out, identity, max_exits, adaptive, force=force, int8=int8)
        if found is not None:
            return found
        pruned = method.pruned(max_exits)
        if adaptive is not None:
            check_adaptive(pruned, dataset)
        graph = ShippedGraph(pruned.folded(dataset.spec.shape), dataset)
        content = graph_content(graph, dataset)
        session = Session(content)
        parity = check_parity(session, method, dataset, max_exits)
        outputs = {name: _outputs(session, dataset.split(name), dataset) for name in ("val", "test")}
        stages = cut(pruned, dataset, session) if adaptive is not None else None
        part = adaptive_part(stages, content, dataset, out.stem, adaptive) if stages and adaptive else None
        quantisation = None
        if int8:
            metrics = {name: _metrics(outputs[name], dataset.split(name)) for name in outputs}
            samples = calibration_samples(dataset, record.config.seed)
            quantised = quantise(content, samples, session.input_name)
            session = Session(quantised)
            outputs = {name: _outputs(session, dataset.split(name), dataset) for name in outputs}
            check_finite(outputs)
            quantisation = describe_quantisation(content, quantised, metrics, len(samples))
            content = quantised
    manifest = Manifest(
        task="classification" if isinstance(method.task, Classification) else "regression",
        graph=GraphPart(file=out.name, sha256=sha256_of(content), bytes=len(content), outputs=session.outputs),
        input=_input_part(session, dataset),
        target=_target_part(record.config, dataset),
        network=_network_part(record.config, method, max_exits),
        cost=_cost_part(method, dataset, max_exits),
        metrics={name: _metrics(outputs[name], dataset.split(name)) for name in outputs},
        conformal=conformal_part(outputs["val"], dataset.val, outputs["test"], dataset.test),
        adaptive=part,
        parity=parity,
        run=identity,
        versions=_versions(),
        quantisation=quantisation,
    )
    write_model(out, content, manifest, stages.contents if stages else ())
    return manifest


def graph_content(graph: ShippedGraph, dataset: Dataset) -> bytes:
    """The ONNX file of a graph that takes a data set's samples as they come."""
    is_image = len(dataset.spec.shape) == 3
    example = torch.zeros((2, *raw_shape(dataset)), dtype=torch.uint8 if is_image else torch.float32)
    return to_onnx(graph, example, "pixels" if is_image else "features", graph.aggregation.output_names)


def conformal_part(val_outputs: dict[str, Any], val: Split, test_outputs: dict[str, Any], test: Split) -> ConformalPart:
    """Calibrated on validation samples, tried on test samples."""
    is_classes = "probs" in val_outputs
    calibration = (
        calibrate(class_scores(val_outputs["probs"], val.targets), "one_minus_probability")
        if is_classes
        else calibrate(value_scores(val_outputs["mean"], val_outputs["variance"], val.targets), "standardised_error")
    )
    tried = min(TRIED_COVERAGE, len(val) / (len(val) + 1))
    threshold = calibration.threshold(tried)
    if is_classes:
        sets = class_sets(test_outputs["probs"], threshold)
        holds, sizes = sets[np.arange(len(test)), test.targets], sets.sum(axis=1)
    else:
        lower, upper = intervals(test_outputs["mean"], test_outputs["variance"], threshold)
        holds, sizes = (lower <= test.targets) & (test.targets <= upper), upper - lower
    return ConformalPart(
        calibration=calibration, tried=tried, test_coverage=float(holds.mean()), test_size=float(sizes.mean())
    )


def _outputs(session: Session, split: Split, dataset: Dataset) -> dict[str, Any]:
    """What the graph says of a split, a chunk in memory at a time."""
    chunks = [
        session.run(without_frame(split.inputs[start : start + CHUNK], dataset.frame))
        for start in range(0, len(split), CHUNK)
    ]
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in session.outputs}


def _metrics(outputs: dict[str, Any], split: Split) -> dict[str, float]:
    """Of the graph's own answers; a probability that underflows counts as the smallest that does not."""
    told = {name: torch.from_numpy(values) for name, values in outputs.items()}
    predictive = (
        Categorical(told["probs"].clamp_min(SMALLEST_PROBABILITY).log())
        if "probs" in told
        else Gaussian(told["mean"], told["variance"])
    )
    measured = measure_predictive(predictive, torch.from_numpy(np.array(split.targets)))
    return {**measured, "disagreement": told["disagreement"].double().mean().item()}


def _input_part(session: Session, dataset: Dataset) -> InputPart:
    return InputPart(
        name=session.input_name,
        dtype="uint8" if session.dtype == "uint8" else "float32",
        shape=session.shape,
        frame=dataset.frame,
        mean=dataset.normalisation.mean,
        std=dataset.normalisation.std,
        columns=None
        if dataset.columns is None
        else tuple(ColumnPart.model_validate(column, from_attributes=True) for column in dataset.columns),
    )


def _target_part(config: RunConfig, dataset: Dataset) -> TargetPart:
    return TargetPart(
        class_names=class_titles(dataset) or None, column=config.data.target, label_scale=dataset.label_scale
    )


def _network_part(config: RunConfig, method: Method, max_exits: int) -> NetworkPart:
    pruned = method.pruned(max_exits)
    pairs: list[tuple[int | None, int]] = (
        [(i + 1, j + 1) for i, j in pruned.members]
        if isinstance(pruned, PrunedNetwork)
        else [(None, method.depth)] * len(pruned.weights)
    )
    members = zip(pruned.weights.tolist(), pairs, strict=True)
    return NetworkPart(
        method=config.method.name,
        backbone=config.backbone.name,
        num_inputs=config.method.inputs if isinstance(config.method, SaeConfig) else 1,
        depth=method.depth,
        max_exits=method.max_exits,
        eval_exits=max_exits,
        active=method.active_counts(max_exits),
        members=tuple(MemberPart(weight=weight, input=i, exit=j) for weight, (i, j) in members),
    )


def _cost_part(method: Method, dataset: Dataset, max_exits: int) -> CostPart:
    described = describe_exits(method, max_exits, dataset.spec)
    return CostPart(**{key: described[key] for key in CostPart.model_fields})


def _run_part(record: RunRecord) -> RunPart:
    config, weights = ((record.path / name).read_bytes() for name in (record.CONFIG, record.MODEL))
    return RunPart(
        data=Path(record.config.data.name).name, config_sha256=sha256_of(config), weights_sha256=sha256_of(weights)
    )


def _versions() -> dict[str, str]:
    packages = ("torch", "onnx", "onnxscript", "onnxruntime")
    return {"sae": __version__, **{name: version(name) for name in packages}, "python": platform.python_version()}
