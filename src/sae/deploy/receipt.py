"""Shipping the pick of a study, with a receipt that compares it with its rivals."""

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from sae.analysis.baselines import compare_with_baselines, verdict
from sae.analysis.candidates import Candidate
from sae.analysis.results import kept_spreads
from sae.analysis.selection import Selection
from sae.analysis.statistics import spreads_of
from sae.config.methods import rivals
from sae.core.errors import ConfigError, DataError, DivergedError, RecordError, RecordWarning
from sae.core.objectives import Objective
from sae.core.progress import SILENT, ProgressDisplay
from sae.data.binding import AS_BEFORE, Binding, Whereabouts, load_bound
from sae.deploy.card import write_card
from sae.deploy.export import export
from sae.deploy.graph import without_frame
from sae.deploy.latency import BATCH, CONTROL, Effort, Timing, interleaved, session_maker
from sae.deploy.manifest import Manifest
from sae.deploy.model_folder import alone_in_folder
from sae.deploy.runtime import ValuePrediction, load
from sae.records.folder import Folder
from sae.records.receipt import (
    PICK,
    Receipt,
    ReceiptBaseline,
    ReceiptIdentity,
    ReceiptPrediction,
    ReceiptRatios,
    ReceiptRow,
    read_receipt,
)
from sae.records.study import MeanAndStd, StudyRecord
from sae.training.baselines import measure_baselines
from sae.training.predictions import keep_predictions
from sae.training.refit import refit as train_again
from sae.training.refit import refits_by_default

RECEIPT_EFFORT = Effort(repeats=20, sessions=3)


def ship_pick(
    selection: Selection,
    out: Path,
    prefer: Objective | None = None,
    *,
    force: bool = False,
    int8: bool = False,
    calibrate: bool = False,
    refit: bool | None = None,
    where: Whereabouts = AS_BEFORE,
    display: ProgressDisplay = SILENT,
) -> tuple[Manifest, Receipt]:
    """Export the pick of a study, predict the test split with it, and compare it with its rivals.

    The receipt is kept beside the model. For the same model and the same rivals, nothing is measured again.

    Args:
        selection: The selection of a study. Its pick is shipped.
        out: The `.onnx` file.
        prefer: The objective that the pick must be best in; by default it is the best compromise.
        force: Replace another model in the folder.
        int8: Ship an int8 graph. Its rivals stay in float32.
        calibrate: Put a fitted temperature into the graph, and into those of the rivals.
        refit: First train the pick again, with the validation samples, too; by default on tables and on small sets of
            the user's own. Its rivals stay as they are.
        where: Where the data are today, and whether others will do.
        display: Where the progress of training again is shown.
    """
    with alone_in_folder(out):
        picked = selection.pick(prefer)
        chosen = picked.candidate
        manifest = export(
            chosen.shipped.record.path,
            out,
            chosen.eval_exits,
            force=force,
            int8=int8,
            calibrate=calibrate,
            refit=_is_refitted(selection, chosen, refit, where, display),
            where=where,
        )
        others = {method: found for method in rivals() if (found := selection.best_of(method, chosen)) is not None}
        compared = {method: item.label for method, item in others.items()}
        identity = ReceiptIdentity(sha256=manifest.graph.sha256, compared=compared)
        known, compared_with = _known_receipt(out), _baselines(selection.study, chosen, where)
        if known is not None and known.identity == identity:
            receipt = known.model_copy(update=compared_with)
            if receipt != known:  # an earlier version measured no baselines
                _write(receipt, out, manifest, chosen)
            return manifest, receipt
        manifests, contents = {PICK: manifest}, {PICK: out.read_bytes()}
        with TemporaryDirectory() as folder:
            for method, item in others.items():
                path, run = Path(folder) / method / "model.onnx", item.shipped.record.path
                manifests[method] = export(run, path, item.eval_exits, calibrate=calibrate, where=where)
                contents[method] = path.read_bytes()
        timings = _time(contents)
        rows = {
            label: _row(item, manifests[label], timings[label].seconds * 1e3)
            for label, item in {PICK: chosen, **others}.items()
        }
        receipt = Receipt(
            identity=identity,
            why=picked.why,
            task=manifest.task,
            batch=BATCH,
            noise=timings[CONTROL].seconds / timings[PICK].seconds,
            predicted=predict_test(chosen, out, where),
            rows=rows,
            ratios={method: _ratios(rows[method], rows[PICK]) for method in others},
            refit=manifest.refit,
        ).model_copy(update=compared_with)
        _write(receipt, out, manifest, chosen)
        return manifest, receipt


def _write(receipt: Receipt, out: Path, manifest: Manifest, chosen: Candidate) -> None:
    Folder(out.parent).write_json(StudyRecord.RECEIPT, receipt.to_json())
    write_card(out.parent, manifest, None if manifest.refit else chosen.shipped.record.read_shift("test"))


def _baselines(study: StudyRecord, chosen: Candidate, where: Whereabouts) -> dict[str, object]:
    """Return what simple baselines reach on the study's data, as parts of the receipt.

    They and the predictions of the network are kept in the study. Nothing is said on other data, or if nothing can be
    kept because the study may not be written to.
    """
    run = chosen.shipped.record
    if where.allow_other:
        return {}
    try:
        keep_predictions(run.path, where)
        baselines = study.read_baselines()
        if baselines is None:
            dataset = load_bound(chosen.config.data, chosen.config.seed, Binding.read(run), where)
            study.write_baselines(baselines := measure_baselines(dataset))
    except RecordError:
        return {}
    both = compare_with_baselines(study, chosen)
    found = [ReceiptBaseline(name=one.name, val=dict(one.val), test=dict(one.test)) for one in baselines.found]
    return {"baselines": tuple(found), "verdict": both and verdict(*both)}


def _is_refitted(
    selection: Selection, chosen: Candidate, asked: bool | None, where: Whereabouts, display: ProgressDisplay
) -> bool:
    """Train the pick again if that is asked for or the default; by default, it is left out with a warning if it fails.

    The network may then read other exits: a limit on a cost must still hold.
    """
    run = chosen.shipped.record
    if not (refits_by_default(run) and not where.allow_other if asked is None else asked):
        return False
    try:
        evaluation = train_again(run, where, display).whole.read_evaluation()
        values = {**evaluation.costs(chosen.eval_exits)}
        broken = [
            limit
            for limit in selection.limits
            if limit.objective.name in values and limit.violation(values[limit.objective.name]) > 0
        ]
        if broken:
            raise ConfigError(
                f"{run.path}, trained again, must still meet the limits, but breaks {', '.join(map(str, broken))}: "
                f"leave out --refit"
            )
    except (ConfigError, DataError, DivergedError) as error:
        if asked:
            raise
        warnings.warn(f"the pick is shipped as it was, not trained again: {error}", RecordWarning, stacklevel=3)
        return False
    return True


def predict_test(chosen: Candidate, model: Path, where: Whereabouts = AS_BEFORE) -> ReceiptPrediction:
    """Predict the test split from the file alone, as its recipient would."""
    dataset = load_bound(chosen.config.data, chosen.config.seed, Binding.read(chosen.shipped.record), where)
    prediction = load(model).predict(without_frame(dataset.test.inputs[:], dataset.frame))
    targets = dataset.test.targets
    if not isinstance(prediction, ValuePrediction):
        is_right = (prediction.labels == targets).reshape(len(targets), -1).all(axis=1)
        return ReceiptPrediction(samples=len(targets), right=int(is_right.sum()))
    unit = targets.std(axis=0) if targets.ndim == 2 else 1.0  # of several, each in its deviations, as in metrics
    rmse = math.sqrt(float(np.mean(((prediction.mean - targets) / unit) ** 2)))
    return ReceiptPrediction(samples=len(targets), rmse=rmse)


def _known_receipt(out: Path) -> Receipt | None:
    """Return the receipt that an earlier command left, if it can be read."""
    try:
        return read_receipt(out.parent / StudyRecord.RECEIPT)
    except RecordError:
        return None


def _row(item: Candidate, manifest: Manifest, milliseconds: float) -> ReceiptRow:
    return ReceiptRow(
        trial=item.label,
        run=str(item.shipped.record.path),
        kind=item.kind,
        called=item.config.called.key,
        settings=item.config.summary,
        eval_exits=item.eval_exits,
        inputs_at_exit=manifest.network.active,
        metrics=manifest.metrics["test"],
        over_seeds=_over_seeds(item),
        **manifest.cost.model_dump(),
        bytes=manifest.graph.bytes,
        ms=milliseconds,
    )


def _over_seeds(item: Candidate) -> dict[str, MeanAndStd] | None:
    evaluations = [run.evaluation for run in item.again if run.evaluation is not None]
    return kept_spreads(spreads_of(each.test.at(item.eval_exits).metrics for each in evaluations)) or None


def _time(contents: Mapping[str, bytes]) -> dict[str, Timing]:
    """Time all graphs side by side, and the pick twice."""
    makers = {label: session_maker(content, BATCH) for label, content in contents.items()}
    return interleaved({**makers, CONTROL: makers[PICK]}, RECEIPT_EFFORT)


def _ratios(row: ReceiptRow, pick: ReceiptRow) -> ReceiptRatios:
    """Return the costs of a network relative to the pick's."""
    return ReceiptRatios(
        flops=row.flops / pick.flops,
        params=row.params / pick.params,
        shipped_flops=row.shipped_flops / pick.shipped_flops,
        shipped_params=row.shipped_params / pick.shipped_params,
        bytes=row.bytes / pick.bytes,
        ms=row.ms / pick.ms,
    )
