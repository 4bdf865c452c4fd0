"""What a study's trials and its later stages leave in the folder, without training: curves, shift, seeds, a receipt."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from sae.analysis.candidates import Candidate, candidates
from sae.analysis.results import Result, summarise
from sae.analysis.selection import select
from sae.records.evaluation import (
    CurveReading,
    Metrics,
    Reading,
    Reliability,
    RiskCoverage,
    ShiftedSet,
    ShiftReading,
    SplitCurves,
)
from sae.records.folder import Folder
from sae.records.predictions import Predictions, SplitPredictions
from sae.records.receipt import Receipt, ReceiptIdentity, ReceiptPrediction, ReceiptRatios, ReceiptRow
from sae.records.run import RunRecord, read_run
from sae.records.study import Confirmed
from tests.studies import DEPTH, METHODS, StudyBuilder, alike_sets, point, sae, write_metrics, write_sets

SETS = tuple((corruption, severity) for corruption in ("fog", "jpeg_compression") for severity in (1, 5))
SHIFT = 0.2
"""By how much every metric is worse on the corrupted sets, on average."""
SEEDS = (1, 2, 3, 4)
STEP = 0.01
"""By how much every metric grows from one seed to the next."""


def write_history(run: RunRecord, epochs: int = 3) -> None:
    """Losses that fall; of an SAE also θ, which moves to the last exit."""
    cell, rows = run.read_config().method.grid_cell(), []
    for epoch in range(1, epochs + 1):
        last = 1 / DEPTH + 0.1 * epoch
        theta = [*[(1 - last) / (DEPTH - 1)] * (DEPTH - 1), last]
        inputs = cell[0] if cell else 0
        named = {f"theta_{i}_{j}": value for i in range(inputs) for j, value in enumerate(theta)}
        rows.append({"epoch": epoch, "loss": 2 / epoch, "val_nll": 1 / epoch, **named})
    run.write_rows(run.HISTORY, rows)


def write_curves(run: RunRecord, exits: Sequence[int]) -> None:
    """Two bins and two points at every K′."""
    reliability = Reliability(count=(4, 6), confidence=(0.4, 0.9), accuracy=(0.5, 0.8))
    risk = RiskCoverage(coverage=(0.5, 1.0), risk=(0.1, 0.3))
    readings = tuple(CurveReading(eval_exits=k, risk_coverage=risk, reliability=reliability) for k in exits)
    split = SplitCurves(readings=readings).to_json(run.read_config().method.trained_exits)
    run.write_json(run.CURVES, {"val": split, "test": split})


def write_shift(run: RunRecord, readings: Sequence[Reading]) -> None:
    """Every metric is worse by `SHIFT`, and differs a little from one set to the next."""
    write_sets(run, "test", [_shifted(item) for item in readings])


def _shifted(item: Reading) -> ShiftReading:
    sets = tuple(
        ShiftedSet(corruption=name, severity=severity, metrics=_worse(item.metrics, SHIFT + 0.01 * (index - 1.5)))
        for index, (name, severity) in enumerate(SETS)
    )
    metrics = _worse(item.metrics, SHIFT)
    stds = dict.fromkeys(metrics, 0.01)
    return ShiftReading(eval_exits=item.eval_exits, metrics=metrics, std_over_sets=stds, sets=sets)


def _moved(item: Reading, by: float) -> Reading:
    return item.model_copy(update={"metrics": {key: value + by for key, value in item.metrics.items()}})


def _worse(metrics: Metrics, by: float) -> dict[str, float]:
    return {key: value - by if key in ("f1", "accuracy") else value + by for key, value in metrics.items()}


def dress(study: StudyBuilder, *, shift: bool = True) -> None:
    """Give every finished trial the files that a search leaves beside its metrics."""
    for run in study.runs():
        if run.evaluation is not None:
            _dress(run.record, run.evaluation.test.readings, shift)


def _dress(run: RunRecord, readings: Sequence[Reading], shift: bool) -> None:
    write_history(run)
    write_curves(run, [item.eval_exits for item in readings])
    if shift:
        write_shift(run, readings)


def confirm(
    study: StudyBuilder,
    chosen: Sequence[Candidate],
    seeds: Sequence[int] = SEEDS,
    *,
    shift: bool = True,
    step: float = STEP,
    shifted: Sequence[Candidate] | None = None,
    luck: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Runs on other seeds, then `confirmed.json`.

    Their metrics are those of validation, `step` more for each seed, and as much more as the trial had luck.
    """
    record, runs = study.record, {}
    for item in {one.label: one for one in (*chosen, *(shifted or ()))}.values():
        runs[item.label] = [record.confirmed_run(item.run.record.path, seed) for seed in seeds]
        for run, seed in zip(runs[item.label], seeds, strict=True):
            _confirm(run, item, seed, shift, step * seed + luck.get(item.label, 0.0))
    front, other = (
        tuple(summarise(item, [read_run(run, with_shift=True) for run in runs[item.label]]) for item in found)
        for found in (chosen, shifted or ())
    )
    confirmed = Confirmed(
        objectives=record.config.objectives,
        seeds=tuple(seeds),
        front=front,
        shifted=None if shifted is None else other,
    )
    record.write_json(record.CONFIRMED, confirmed.model_dump(mode="json"))


def _confirm(run: RunRecord, item: Candidate, seed: int, shift: bool, more: float) -> None:
    run.make(item.config.model_copy(update={"seed": seed}))
    assert item.run.evaluation is not None
    readings = [_moved(one, more) for one in item.run.evaluation.val.readings]
    write_metrics(run, readings, readings)
    _dress(run, readings, shift)
    run.end("finished", seconds=60.0)


def ship(study: StudyBuilder) -> Receipt:
    """The receipt of the pick: half a millisecond, and for every other a whole one; two and six kilobytes."""
    selection = select(study.record)
    pick = selection.pick()
    others = {method: selection.best_of(method, pick.candidate) for method in ("ensemble", "standard")}
    compared = {method: item for method, item in others.items() if item}
    own = _shipped(pick.candidate, ms=0.5, size=2000)
    rows = {method: _shipped(item, ms=1.0, size=6000) for method, item in compared.items()}
    receipt = Receipt(
        identity=ReceiptIdentity(sha256="0" * 64, compared={method: item.label for method, item in compared.items()}),
        why=pick.why,
        task="regression" if study.record.config.task == "regression" else "classification",
        batch=64,
        noise=1.0,
        predicted=ReceiptPrediction(samples=100, right=90),
        rows={"pick": own, **rows},
        ratios={method: _ratios(row, own) for method, row in rows.items()},
    )
    folder = study.record.path / study.record.SHIPPED
    folder.mkdir()
    Folder(folder).write_json(study.record.RECEIPT, receipt.to_json())
    return receipt


def _shipped(item: Candidate, ms: float, size: int) -> ReceiptRow:
    assert item.run.evaluation is not None
    reading = item.run.evaluation.test.at(item.eval_exits)
    return ReceiptRow(
        trial=item.label,
        run=str(item.shipped.record.path),
        kind=item.kind,
        called=item.config.called.key,
        settings=item.config.summary,
        eval_exits=item.eval_exits,
        metrics=dict(reading.metrics),
        params=reading.params,
        flops=reading.flops,
        shipped_params=reading.shipped_params,
        shipped_flops=reading.shipped_flops,
        bytes=size,
        ms=ms,
    )


def _ratios(row: ReceiptRow, pick: ReceiptRow) -> ReceiptRatios:
    return ReceiptRatios(**{name: getattr(row, name) / getattr(pick, name) for name in ReceiptRatios.model_fields})


def measured(nll: float, cc_ece: float, flops: int) -> dict[str, float]:
    return point(nll, cc_ece, flops, ece=cc_ece, accuracy=1 - nll / 2)


def searched_study(path: Path, *, shift: bool = True, **config: Any) -> StudyBuilder:
    """All nine classes of methods, one trial each, and one that failed; nothing is confirmed yet."""
    study = StudyBuilder(path, **{"methods": METHODS, "shift": shift, **config})
    for number, (inputs, exits) in enumerate([(2, 2), (1, 3), (3, 3), (2, 1), (1, 1)]):
        gain = 0.05 * number
        points = [measured(0.5 - gain - 0.1 * k, 0.05 + 0.01 * (k + number), 1000 * (k + 1 + number)) for k in range(3)]
        study.finish(sae(inputs, exits), points)
    study.end(sae(1, 1), "failed", error="the loss was nan")
    study.finish({"name": "standard"}, [measured(0.60, 0.12, 900)])
    study.finish({"name": "ensemble", "members": 4}, [measured(0.12, 0.04, 40_000)])
    study.finish({"name": "mc_dropout"}, [measured(0.55, 0.11, 4000)])
    study.finish({"name": "batch_ensemble", "members": 4}, [measured(0.40, 0.10, 5000)])
    dress(study, shift=shift)
    return study


def confirmed_study(path: Path, *, shift: bool = True, **config: Any) -> StudyBuilder:
    """The same, its front and the best of each method confirmed on four seeds."""
    study = searched_study(path, shift=shift, **config)
    front = select(study.record).front
    others = [item for item in candidates(study.runs()) if item.method != "sae"]
    confirm(study, [*front, *(item for item in others if not any(item is one for one in front))], shift=shift)
    return study


def whole_study(path: Path, **config: Any) -> StudyBuilder:
    """Searched, confirmed on clean and corrupted samples, and shipped."""
    study = confirmed_study(path, **config)
    ship(study)
    return study


def two_front_study(path: Path, **config: Any) -> StudyBuilder:
    """Searched and confirmed on both fronts: what is good on clean validation images is bad on corrupted ones."""
    study = searched_study(path, shift_sets="all", **config)
    for run in study.runs():
        if run.evaluation is not None:
            write_sets(
                run.record,
                "val",
                [alike_sets(item.eval_exits, _reversed(item)) for item in run.evaluation.val.readings],
            )
    confirm(study, select(study.record).front, shifted=select(study.record, shift=True).front)
    return study


def _reversed(item: Reading) -> dict[str, float]:
    return {key: 1 - value for key, value in item.metrics.items()}


def keep_predictions(confirmed: Sequence[Result], samples: int = 300) -> None:
    """Predictions of every confirmed run: an ensemble's members are all as sharp, and the pick is as sharp as two."""
    targets = np.random.default_rng(0).integers(0, 4, samples)
    for item in confirmed:
        for run in item.runs:
            assert run.config is not None
            assert run.evaluation is not None
            draw = np.random.default_rng([run.config.seed, len(item.method)])
            members = 4 if item.method == "ensemble" else 2
            logits = draw.normal(scale=1.5, size=(members, samples, 4)) + 2.0 * np.eye(4)[targets]
            own = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
            joint = np.log(np.exp(own).mean(axis=0))
            split = SplitPredictions(
                "same", targets, dict.fromkeys(run.evaluation.eval_exits, joint), own if members == 4 else None
            )
            Predictions("classification", split, split).write(run.record)
