"""What a study's trials and its later stages leave in the folder, without training: curves, shift, seeds, a receipt."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sae.analysis.candidates import SHIFTED_TEST, Candidate, candidates
from sae.analysis.selection import select
from sae.config.methods import SaeConfig
from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from tests.studies import DEPTH, METHODS, StudyBuilder, point, sae

SETS = tuple((corruption, severity) for corruption in ("fog", "jpeg_compression") for severity in (1, 5))
SHIFT = 0.2
"""By how much every metric is worse on the corrupted sets, on average."""
SEEDS = (1, 2, 3, 4)
STEP = 0.01
"""By how much every metric grows from one seed to the next."""


def write_history(run: RunRecord, epochs: int = 3) -> None:
    """Losses that fall; of an SAE also θ, which moves to the last exit."""
    method, rows = run.config.method, []
    for epoch in range(1, epochs + 1):
        last = 1 / DEPTH + 0.1 * epoch
        theta = [*[(1 - last) / (DEPTH - 1)] * (DEPTH - 1), last]
        inputs = method.inputs if isinstance(method, SaeConfig) else 0
        named = {f"theta_{i}_{j}": value for i in range(inputs) for j, value in enumerate(theta)}
        rows.append({"epoch": epoch, "loss": 2 / epoch, "val_nll": 1 / epoch, **named})
    run.write_rows(run.HISTORY, rows)


def write_curves(run: RunRecord, exits: Sequence[int]) -> None:
    """Two bins and two points at every K′."""
    reliability = {"count": [4, 6], "confidence": [0.4, 0.9], "accuracy": [0.5, 0.8]}
    drawn = {"reliability": reliability, "risk_coverage": {"coverage": [0.5, 1.0], "risk": [0.1, 0.3]}}
    by_exits = [{"exits": k, **drawn} for k in exits]
    run.write_json(run.CURVES, {split: {**drawn, "by_exits": by_exits} for split in ("val", "test")})


def write_shift(run: RunRecord, by_exits: Sequence[Mapping[str, Any]]) -> None:
    """Every metric is worse by `SHIFT`, and differs a little from one set to the next."""
    items = []
    for item in by_exits:
        by_set = [
            {"corruption": name, "severity": severity, "metrics": _worse(item["metrics"], SHIFT + 0.01 * (index - 1.5))}
            for index, (name, severity) in enumerate(SETS)
        ]
        metrics = _worse(item["metrics"], SHIFT)
        over_sets = dict.fromkeys(metrics, 0.01)
        items.append({"exits": item["exits"], "metrics": metrics, "std_over_sets": over_sets, "by_set": by_set})
    exits = run.report("test")["exits"]
    trained = next(item for item in items if item["exits"] == exits)
    run.write_json(SHIFTED_TEST, {**trained, "sets": len(SETS), "by_exits": items})


def _moved(metrics: Mapping[str, float], by: float) -> dict[str, float]:
    return {key: value + by for key, value in metrics.items()}


def _worse(metrics: Mapping[str, float], by: float) -> dict[str, float]:
    return {key: value - by if key in ("f1", "accuracy") else value + by for key, value in metrics.items()}


def dress(study: StudyBuilder, *, shift: bool = True) -> None:
    """Give every finished trial the files that a search leaves beside its metrics."""
    for trial in study.record.trials():
        if trial.state == "finished":
            _dress(trial.run, trial.run.report("test")["by_exits"], shift)


def _dress(run: RunRecord, by_exits: Sequence[Mapping[str, Any]], shift: bool) -> None:
    write_history(run)
    write_curves(run, [item["exits"] for item in by_exits])
    if shift:
        write_shift(run, by_exits)


def confirm(
    study: StudyBuilder,
    chosen: Sequence[Candidate],
    seeds: Sequence[int] = SEEDS,
    *,
    shift: bool = True,
    step: float = STEP,
) -> None:
    """Runs on other seeds: the metrics of validation, and `step` more for each seed; then `confirmed.json`."""
    record = study.record
    for item in {one.trial.name: one for one in chosen}.values():
        for seed in seeds:
            _confirm(_seed_folder(record, item, seed), item, seed, shift, step)
    front = [item.describe() for item in chosen]
    confirmed = {"objectives": list(record.config.objectives), "seeds": list(seeds), "front": front}
    record.write_json(record.CONFIRMED, confirmed)


def _seed_folder(record: StudyRecord, item: Candidate, seed: int) -> Path:
    return record.path / record.CONFIRM / item.trial.method / item.trial.run.path.name / f"seed-{seed}"


def _confirm(folder: Path, item: Candidate, seed: int, shift: bool, step: float) -> None:
    run = RunRecord.create(folder, item.config.model_copy(update={"seed": seed}))
    val = item.trial.run.report("val")
    by_exits = [{**one, "metrics": _moved(one["metrics"], step * seed)} for one in val["by_exits"]]
    report = {"exits": val["exits"], "metrics": by_exits[val["exits"] - 1]["metrics"], "by_exits": by_exits}
    run.write_json(run.METRICS, {"val": report, "test": report})
    _dress(run, by_exits, shift)
    run.end("finished", seconds=60.0)


def ship(study: StudyBuilder) -> dict[str, Any]:
    """The receipt of the pick: half a millisecond, and for every other a whole one; two and six kilobytes."""
    selection = select(study.record)
    pick, why = selection.pick()
    others = {method: selection.best_of(method, pick) for method in ("ensemble", "standard")}
    compared = {"pick": pick, **{method: item for method, item in others.items() if item}}
    rows = {
        role: {
            "trial": item.trial.name,
            "eval_exits": item.eval_exits,
            "ms": 0.5 if role == "pick" else 1.0,
            "bytes": 2000 if role == "pick" else 6000,
        }
        for role, item in compared.items()
    }
    receipt = {"why": why, "batch": 64, "rows": rows}
    folder = study.record.path / study.record.SHIPPED
    folder.mkdir()
    RunRecord(folder).write_json(study.record.RECEIPT, receipt)
    return receipt


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
    others = [item for item in candidates(study.record) if item.trial.method != "sae"]
    confirm(study, [*front, *(item for item in others if not any(item is one for one in front))], shift=shift)
    return study


def whole_study(path: Path, **config: Any) -> StudyBuilder:
    """Searched, confirmed on clean and corrupted samples, and shipped."""
    study = confirmed_study(path, **config)
    ship(study)
    return study
