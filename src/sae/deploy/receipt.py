"""What a study's pick comes to once it is shipped, beside the ensemble and the standard network of the study."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from sae.analysis.candidates import Candidate, summary
from sae.analysis.selection import COMPARED, Selection
from sae.data.catalogue import load as load_data
from sae.deploy.export import export
from sae.deploy.graph import without_frame
from sae.deploy.latency import BATCH, CONTROL, Effort, interleaved, session_maker
from sae.deploy.manifest import Manifest
from sae.deploy.runtime import ClassPrediction, load
from sae.records.folder import Folder
from sae.records.study import StudyRecord

NAME = StudyRecord.RECEIPT
"""Beside the model that it is about."""
PICK = "pick"
EFFORT = Effort(repeats=20, sessions=3)


def ship_pick(
    selection: Selection, out: Path, *, force: bool = False, int8: bool = False
) -> tuple[Manifest, dict[str, Any]]:
    """Export the pick of a study, predict the test split with it, and say what it comes to.

    The receipt stays beside the model: for the same model and the same others it is not measured again.

    Args:
        selection: Of the study; its pick is shipped.
        out: The `.onnx` file.
        force: Replace another model that is there.
        int8: Ship eight bits; the others are compared in float32.
    """
    chosen, why = selection.pick()
    manifest = export(chosen.trial.run.path, out, chosen.eval_exits, force=force, int8=int8)
    others = {method: found for method in COMPARED if (found := selection.best_of(method, chosen)) is not None}
    identity = {"sha256": manifest.graph.sha256, "compared": {key: item.trial.name for key, item in others.items()}}
    known = _known(out)
    if known is not None and known["identity"] == identity:
        return manifest, known
    rows = {PICK: _row(chosen, manifest)}
    contents = {PICK: out.read_bytes()}
    with TemporaryDirectory() as folder:
        for method, item in others.items():
            path = Path(folder) / method / "model.onnx"
            rows[method] = _row(item, export(item.trial.run.path, path, item.eval_exits))
            contents[method] = path.read_bytes()
    noise = _time(rows, contents)
    receipt = {
        "identity": identity,
        "why": why,
        "task": manifest.task,
        "batch": BATCH,
        "noise": noise,
        "predicted": predict_test(chosen, out),
        "rows": rows,
        "ratios": {method: _ratios(rows[method], rows[PICK]) for method in others},
    }
    Folder(out.parent).write_json(NAME, receipt)
    return manifest, receipt


def predict_test(chosen: Candidate, model: Path) -> dict[str, float]:
    """Predict the test split from the file alone, as whoever receives it would."""
    dataset = load_data(chosen.config.data, chosen.config.seed)
    prediction = load(model).predict(without_frame(dataset.test.inputs[:], dataset.frame))
    targets = dataset.test.targets
    if isinstance(prediction, ClassPrediction):
        return {"samples": len(targets), "right": int((prediction.labels == targets).sum())}
    return {"samples": len(targets), "rmse": math.sqrt(float(np.mean((prediction.mean - targets) ** 2)))}


def _known(out: Path) -> dict[str, Any] | None:
    """The receipt that an earlier command left, if it can be read."""
    try:
        values = json.loads((out.parent / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return values if isinstance(values, dict) and "identity" in values else None


def _row(item: Candidate, manifest: Manifest) -> dict[str, Any]:
    return {
        "trial": item.trial.name,
        "run": str(item.trial.run.path),
        "kind": item.kind,
        "settings": summary(item.config),
        "eval_exits": item.eval_exits,
        "metrics": manifest.metrics["test"],
        **manifest.cost.model_dump(),
        "bytes": manifest.graph.bytes,
    }


def _time(rows: Mapping[str, dict[str, Any]], contents: Mapping[str, bytes]) -> float:
    """Measure all side by side; returns what the pick differs from itself by, as a ratio."""
    makers = {label: session_maker(content, BATCH) for label, content in contents.items()}
    timings = interleaved({**makers, CONTROL: makers[PICK]}, EFFORT)
    for label, row in rows.items():
        row["ms"] = timings[label].seconds * 1e3
    return timings[CONTROL].seconds / timings[PICK].seconds


def _ratios(row: Mapping[str, Any], pick: Mapping[str, Any]) -> dict[str, float]:
    """How many times as much another costs."""
    costs = ("flops", "params", "shipped_flops", "shipped_params", "bytes", "ms")
    return {key: row[key] / pick[key] for key in costs}
