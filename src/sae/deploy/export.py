"""From a run to the file that is shipped: pruned, folded, checked and described."""

import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from sae.config.run import RunConfig, SaeConfig
from sae.core.errors import ConfigError, ModelError, OtherModelError
from sae.core.task import Classification
from sae.data.dataset import Dataset
from sae.data.summary import class_titles
from sae.deploy.conformal import (
    conformal_part,
)
from sae.deploy.evaluation import check_parity, graph_metrics, split_outputs
from sae.deploy.graph import ShippedGraph, graph_content
from sae.deploy.manifest import (
    NAME,
    ColumnPart,
    CostPart,
    ExitTarget,
    GraphPart,
    InputPart,
    Manifest,
    MemberPart,
    NetworkPart,
    RunPart,
    TargetPart,
    read_manifest,
    sha256_of,
)
from sae.deploy.quantisation import calibration_samples, check_finite, describe_quantisation, quantise
from sae.deploy.segments import check_adaptive, cut
from sae.deploy.session import Session
from sae.deploy.tradeoff import adaptive_part
from sae.ensemble.pruning import PrunedNetwork
from sae.methods import Method
from sae.records.folder import write_whole
from sae.records.run import RunRecord
from sae.training.evaluator import describe_exits
from sae.training.run import restore, torch_threads


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
        outputs = {name: split_outputs(session, dataset.split(name), dataset) for name in ("val", "test")}
        stages = cut(pruned, dataset, session) if adaptive is not None else None
        part = adaptive_part(stages, content, dataset, out.stem, adaptive) if stages and adaptive else None
        quantisation = None
        if int8:
            metrics = {name: graph_metrics(outputs[name], dataset.split(name)) for name in outputs}
            samples = calibration_samples(dataset, record.config.seed)
            quantised = quantise(content, samples, session.input_name)
            session = Session(quantised)
            outputs = {name: split_outputs(session, dataset.split(name), dataset) for name in outputs}
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
        metrics={name: graph_metrics(outputs[name], dataset.split(name)) for name in outputs},
        conformal=conformal_part(outputs["val"], dataset.val, outputs["test"], dataset.test),
        adaptive=part,
        parity=parity,
        run=identity,
        versions=_versions(),
        quantisation=quantisation,
    )
    write_model(out, content, manifest, stages.contents if stages else ())
    return manifest


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
    packages = ("sae", "torch", "onnx", "onnxscript", "onnxruntime")
    return {**{name: version(name) for name in packages}, "python": platform.python_version()}


def already_there(
    out: Path,
    run: RunPart,
    eval_exits: int,
    target: ExitTarget | None = None,
    *,
    force: bool,
    int8: bool = False,
) -> Manifest | None:
    """The manifest of this very model if it is at `out` already; something else there is refused.

    The same model without the stages that are asked for, or with stages for another target, is
    none: it is written again, with them.
    `force` makes room for another model, but never for a file that we did not write.
    """
    if out.suffix != ".onnx" or out.is_dir():
        raise ConfigError(f"--out must name a file that ends in .onnx, got {out}")
    manifest_path = out.parent / NAME
    if not manifest_path.exists():
        if out.exists() and not force:
            raise ModelError(f"{out} is there already, and no {NAME} says what it is: name another, or use --force")
        return None
    try:
        manifest = read_manifest(manifest_path)
    except ModelError as error:
        raise ModelError(f"a folder holds one model and its {NAME}: name another folder for {out}; {error}") from None
    if force:
        return None
    if manifest.graph.file != out.name:
        raise OtherModelError(
            f"a folder holds one model, however {out.parent} holds {manifest.graph.file} already: name another "
            f"folder for {out.name}, or replace what describes the other with --force"
        )
    is_same = manifest.run == run and manifest.network.eval_exits == eval_exits
    if is_same and (manifest.quantisation is not None) == int8 and _is_whole(out, manifest):
        return manifest if target is None or _has_stages(out, manifest, target) else None
    bits = "int8" if manifest.quantisation else "float32"
    raise OtherModelError(
        f"{out} is there already, of another run or another number of exits or bits ({manifest.network.method}, "
        f"{manifest.network.eval_exits} exits, {bits}): name another folder, or start over with --force"
    )


def write_model(out: Path, content: bytes, manifest: Manifest, stages: Sequence[bytes] = ()) -> None:
    """The stages and the graph, then the manifest that belongs to them: files alone are noticed when they are loaded.

    Stages of the model that is replaced go, where they are not written anew.
    """
    parts = manifest.adaptive.stages if manifest.adaptive else ()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"the folder of {out} must be writable, however it is not: {error.strerror}") from None
    outdated = _stage_files(out.parent) - {part.file for part in parts}
    for part, stage in zip(parts, stages, strict=True):
        write_whole(out.with_name(part.file), lambda temporary, stage=stage: temporary.write_bytes(stage))  # type: ignore[misc]
    write_whole(out, lambda temporary: temporary.write_bytes(content))
    write_whole(out.parent / NAME, lambda temporary: temporary.write_text(manifest.to_json(), encoding="utf-8"))
    for name in outdated:
        out.with_name(name).unlink(missing_ok=True)


def _stage_files(folder: Path) -> set[str]:
    """The stages of the model that is there."""
    try:
        adaptive = read_manifest(folder / NAME).adaptive
    except ModelError:
        return set()
    return {part.file for part in adaptive.stages} if adaptive else set()


def _has_stages(out: Path, manifest: Manifest, target: ExitTarget) -> bool:
    adaptive = manifest.adaptive
    return (
        adaptive is not None
        and adaptive.target == target
        and all(
            out.with_name(part.file).is_file() and sha256_of(out.with_name(part.file).read_bytes()) == part.sha256
            for part in adaptive.stages
        )
    )


def _is_whole(out: Path, manifest: Manifest) -> bool:
    return out.is_file() and sha256_of(out.read_bytes()) == manifest.graph.sha256
