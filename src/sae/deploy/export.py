"""Export: from a run to a checked and described model in a folder.

A shipment is built step by step: the plain graph, then if asked for its segments for adaptive
exits, or its quantised version. Nothing is written until all checks have passed.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from sae.analysis.temperature import fit_temperature
from sae.backbones import MemberNetwork
from sae.config.run import RunConfig
from sae.core.errors import ConfigError
from sae.core.objectives import TaskName
from sae.core.progress import SILENT, ProgressDisplay
from sae.core.task import Classification, Counts, MultiLabel, Task
from sae.data.binding import AS_BEFORE, Binding, Whereabouts
from sae.data.dataset import Dataset, class_titles, target_titles
from sae.data.splits import join, trained_on
from sae.data.training_profile import DataProfile
from sae.deploy.card import write_card
from sae.deploy.conformal import ConformalPart, conformal_intervals, conformal_sets
from sae.deploy.description import cost_part, input_part, network_part, package_versions, target_part
from sae.deploy.evaluation import SMALLEST_PROBABILITY, Metrics, check_parity, graph_metrics, split_outputs
from sae.deploy.graph import shipped_content
from sae.deploy.manifest import (
    AdaptivePart,
    CalibrationPart,
    ExitTarget,
    GraphPart,
    Manifest,
    ParityPart,
    QuantisationPart,
    RunPart,
    check_model_path,
    sha256_of,
)
from sae.deploy.model_folder import alone_in_folder, find_model, write_model
from sae.deploy.quantisation import check_finite, describe_quantisation, quantise, range_samples
from sae.deploy.segments import check_adaptive, cut
from sae.deploy.session import Output, Session
from sae.deploy.tradeoff import adaptive_part
from sae.methods import Method
from sae.records.predictions import Numbers
from sae.records.receipt import RefitPart
from sae.records.run import RunRecord
from sae.training.checkpoint import trained_method
from sae.training.refit import refit as train_again
from sae.training.run import restore
from sae.training.trainer import torch_threads


@dataclass(frozen=True)
class Source:
    """The trained network to ship.

    Attributes:
        config: Settings of the run.
        method: The trained method, on the CPU.
        dataset: Its data; validation samples are those that calibrate.
        eval_exits: K′ to ship.
        pruned: The method's network at K′ exits.
    """

    config: RunConfig
    method: Method
    dataset: Dataset
    eval_exits: int
    pruned: MemberNetwork

    @classmethod
    def of(cls, config: RunConfig, method: Method, dataset: Dataset, eval_exits: int) -> Self:
        """Prune the method's network."""
        return cls(config, method, dataset, eval_exits, method.pruned(eval_exits))


@dataclass(frozen=True)
class Shipment:
    """A model before it is written.

    Attributes:
        source: The trained network.
        content: File of the graph.
        session: The graph in onnxruntime.
        outputs: Outputs of the graph on the val and the test split.
        parity: The difference between the float32 graph and the trained network.
        segments: Files of the segments for adaptive exits.
        adaptive: Description of the segments.
        quantisation: The effect of quantisation.
        calibration: The temperature inside the graph, if scaling was asked for.
        folds: If the network has seen the validation samples: others in the same state, which predict those of its
            samples that they have not seen.
    """

    source: Source
    content: bytes
    session: Session
    outputs: dict[str, dict[str, Output]]
    parity: ParityPart
    segments: Sequence[bytes] = ()
    adaptive: AdaptivePart | None = None
    quantisation: QuantisationPart | None = None
    calibration: CalibrationPart | None = None
    folds: "Sequence[Shipment]" = ()

    def measure(self) -> dict[str, Metrics]:
        """Return the metrics of the graph by split."""
        return {name: graph_metrics(found, self.source.dataset.split(name)) for name, found in self.outputs.items()}


def export(
    run: Path,
    out: Path,
    eval_exits: int | None = None,
    *,
    adaptive: ExitTarget | None = None,
    force: bool = False,
    int8: bool = False,
    calibrate: bool = False,
    refit: bool = False,
    where: Whereabouts = AS_BEFORE,
    display: ProgressDisplay = SILENT,
) -> Manifest:
    """Write a run's network as ONNX with a manifest and a model card beside it, if all checks pass.

    Args:
        run: The run folder.
        out: The `.onnx` file. Its folder holds this one model.
        eval_exits: K′ to ship; by default the best on validation, with adaptive exits the trained K.
        adaptive: Also write segments for adaptive exits, with a threshold that meets this target.
        force: Replace another model in the folder.
        int8: Quantise the graph, after the float32 graph has passed its checks.
        calibrate: Put a temperature into the graph that is fitted on validation samples.
        refit: Ship a network that is first trained again, with the validation samples, too.
        where: Where the data are now, and whether other data may be used instead.
        display: Where the progress of training again is shown.
    """
    check_model_path(out)
    if adaptive is not None and calibrate:
        raise ConfigError(
            "--calibrate and --adaptive cannot be combined (a temperature would change who leaves early): leave one out"
        )
    if adaptive is not None and refit:
        raise ConfigError(
            "--refit and --adaptive cannot be combined (the network would have seen the validation samples that choose "
            "who leaves early): leave one out"
        )
    record = RunRecord.open(run)
    config, shift = record.read_config(), record.read_shift("test")
    with alone_in_folder(out), torch_threads(config.train.threads):
        method, dataset = restore(record, "cpu", where)
        eval_exits = method.resolve_exits(eval_exits if adaptive else record.exits_to_read(eval_exits))
        shipped, folds = record, tuple[RunRecord, ...]()
        if refit:
            if dataset.is_other:
                raise ConfigError("a run is trained again on its own data only: drop --allow-other-data or --refit")
            again = train_again(record, where, display)
            shipped, folds, shift = again.whole, again.folds, None  # shift was measured on the network before
            method = trained_method(shipped, dataset, "cpu")
        identity = _run_part(shipped, dataset)
        found = find_model(out, identity, eval_exits, adaptive, force=force, int8=int8, calibrate=calibrate)
        if found is not None:
            write_card(out.parent, found, shift)
            return found
        source = Source.of(config, method, dataset, eval_exits)
        if adaptive is not None:
            check_adaptive(source.pruned, dataset)
        shipment = plain_shipment(source, [_fold_source(fold, dataset, eval_exits) for fold in folds])
        part = _refit_part(record, shipment, dataset) if refit else None
        if calibrate:
            shipment = calibrated(shipment, dict(shift.at(eval_exits).metrics) if shift else {})
        if adaptive is not None:
            shipment = with_segments(shipment, out.stem, adaptive)
        if int8:
            shipment = quantised(shipment)
        manifest = describe(shipment, out.name, identity, part, profile_of(record))
        write_model(out, shipment.content, manifest, shipment.segments)
        write_card(out.parent, manifest, shift)
    return manifest


def _fold_source(fold: RunRecord, dataset: Dataset, eval_exits: int) -> Source:
    """Return the network of a fold, with the validation samples that it has not seen."""
    config = fold.read_config()
    rest = trained_on(dataset, config.train.val_too, config.data.split_seed)
    return Source.of(config, trained_method(fold, dataset, "cpu"), rest, eval_exits)


def _refit_part(before: RunRecord, plain: Shipment, dataset: Dataset) -> RefitPart:
    return RefitPart(
        samples=len(dataset.train) + len(dataset.val),
        folds=len(plain.folds),
        nll_before=before.read_evaluation().test.at(plain.source.eval_exits).metrics["nll"],
        nll=plain.measure()["test"]["nll"],
    )


def plain_shipment(source: Source, folds: Sequence[Source] = ()) -> Shipment:
    """Export the pruned and folded network as one float32 graph, and compare it with the trained network.

    Args:
        source: The network.
        folds: If it has seen the validation samples: others, with those that each of them has not seen.
    """
    if folds:
        unseen = join([fold.dataset.val for fold in folds])
        source = dataclasses.replace(source, dataset=dataclasses.replace(source.dataset, val=unseen))
    content = shipped_content(source.method, source.dataset, source.eval_exits)
    session = Session(content)
    parity = check_parity(session, source.method, source.dataset, source.eval_exits)
    predicting = [plain_shipment(fold) for fold in folds]
    return Shipment(source, content, session, _outputs(session, source.dataset, predicting), parity, folds=predicting)


def calibrated(plain: Shipment, shifted: Metrics) -> Shipment:
    """Put a temperature into the graph that is fitted on its validation predictions, and check it again.

    A temperature that reached its bound is not applied: the graph does not change.

    Args:
        plain: The model without a temperature.
        shifted: Metrics of the run on corrupted test images; empty if they were not measured.
    """
    source = plain.source
    name, numbers = _numbers(source.method.task, plain.outputs["val"])
    found = fit_temperature(name, numbers, source.dataset.val.targets[:])
    remark = found.remark if found.value == 1.0 else None
    part = CalibrationPart(
        temperature=found.value,
        fitted=found.fitted,
        samples=found.num_samples,
        remark=remark,
        raw=plain.measure(),
        under_shift={key: shifted[key] for key in ("nll", "nll_scaled") if key in shifted},
    )
    scaled = plain if found.value == 1.0 else _at_temperature(plain, found.value)
    return dataclasses.replace(scaled, calibration=part)


def _at_temperature(plain: Shipment, temperature: float) -> Shipment:
    """Put a temperature into the graph, and check it again."""
    source, folds = plain.source, [_at_temperature(fold, temperature) for fold in plain.folds]
    content = shipped_content(source.method, source.dataset, source.eval_exits, temperature)
    session = Session(content)
    parity = check_parity(session, source.method, source.dataset, source.eval_exits, temperature)
    outputs = _outputs(session, source.dataset, folds)
    return dataclasses.replace(plain, content=content, session=session, outputs=outputs, parity=parity, folds=folds)


def _numbers(task: Task, outputs: Mapping[str, Output]) -> tuple[TaskName, Numbers]:
    """Return the predictions of a graph, (sample, [target,] number), and their task for `sae.analysis.temperature`."""
    if "probs" not in outputs:
        return "regression", np.stack([outputs["mean"], outputs["variance"]], axis=-1).astype(np.float64)
    probs = outputs["probs"].astype(np.float64)
    if isinstance(task, MultiLabel):
        probs = np.stack([1 - probs, probs], axis=-1)
    return "classification", np.log(np.maximum(probs, SMALLEST_PROBABILITY))


def with_segments(plain: Shipment, stem: str, target: ExitTarget) -> Shipment:
    """Cut the network into segments, compare them with the plain graph, and choose a threshold.

    Args:
        plain: The plain graph, which does not change.
        stem: Start of the segments' file names.
        target: The target of the threshold.
    """
    dataset = plain.source.dataset
    segments = cut(plain.source.pruned, dataset, plain.session)
    part = adaptive_part(segments, plain.content, dataset, stem, target)
    return dataclasses.replace(plain, segments=segments.contents, adaptive=part)


def quantised(plain: Shipment) -> Shipment:
    """Replace the float32 graph by an int8 one, check its outputs, and describe the difference."""
    source, folds = plain.source, [quantised(fold) for fold in plain.folds]
    samples = range_samples(source.dataset, source.config.seed)
    content = quantise(plain.content, samples, plain.session.input_name)
    session = Session(content)
    outputs = _outputs(session, source.dataset, folds)
    check_finite(outputs)
    part = describe_quantisation(plain.content, content, plain.measure(), len(samples))
    return dataclasses.replace(plain, content=content, session=session, outputs=outputs, quantisation=part, folds=folds)


def describe(
    shipment: Shipment,
    file: str,
    identity: RunPart,
    refit: RefitPart | None = None,
    profile: DataProfile | None = None,
) -> Manifest:
    """Return the manifest of a model.

    Args:
        shipment: The model.
        file: Name of the graph's file.
        identity: The run that it comes from.
        refit: The last training, if there was one.
        profile: The profile of the run's data, with which new samples are compared.
    """
    source, content, session = shipment.source, shipment.content, shipment.session
    return Manifest(
        task="classification" if isinstance(source.method.task, Classification) else "regression",
        graph=GraphPart(file=file, sha256=sha256_of(content), bytes=len(content), outputs=session.outputs),
        input=input_part(session, source.dataset, source.dataset.fit, source.dataset.columns),
        target=target_part(
            source.method.task,
            class_titles(source.dataset),
            target_titles(source.dataset),
            source.config.data.unit,
            source.dataset.label_scale,
        ),
        network=network_part(
            source.method, source.config.method, source.config.backbone.name, source.pruned, source.eval_exits
        ),
        cost=cost_part(source.pruned, source.dataset.spec.shape),
        metrics=shipment.measure(),
        conformal=_conformal_part(shipment),
        adaptive=shipment.adaptive,
        parity=shipment.parity,
        run=identity,
        versions=package_versions(),
        quantisation=shipment.quantisation,
        calibration=shipment.calibration,
        refit=refit,
        profile=profile,
    )


def profile_of(record: RunRecord) -> DataProfile | None:
    """Return the profile of a run's data; None for an older run."""
    binding = Binding.read(record)
    return binding.description.profile if binding else None


def _outputs(session: Session, dataset: Dataset, folds: Sequence[Shipment] = ()) -> dict[str, dict[str, Output]]:
    """Return the outputs on the val and the test split; those of folds on the samples that each has not seen."""
    test = split_outputs(session, dataset.test, dataset)
    if not folds:
        return {"val": split_outputs(session, dataset.val, dataset), "test": test}
    return {"val": {name: np.concatenate([fold.outputs["val"][name] for fold in folds]) for name in test}, "test": test}


def _conformal_part(shipment: Shipment) -> ConformalPart | None:
    """Return the scores behind sets or intervals; None for labels, several of which may hold."""
    dataset, outputs = shipment.source.dataset, shipment.outputs
    task, val, test = dataset.spec.task, dataset.val.targets, dataset.test.targets
    if isinstance(task, MultiLabel):
        return None
    if isinstance(task, Classification):
        return conformal_sets(outputs["val"], val, outputs["test"], test)
    smallest = 0.0 if isinstance(task, Counts) else -math.inf
    return conformal_intervals(outputs["val"], val, outputs["test"], test, smallest)


def _run_part(record: RunRecord, dataset: Dataset) -> RunPart:
    settings, weights = ((record.path / name).read_bytes() for name in (record.CONFIG, record.MODEL))
    return RunPart(
        data=Path(record.read_config().data.name).name,
        config_sha256=sha256_of(settings),
        weights_sha256=sha256_of(weights),
        other_data=dataset.is_other,
    )
