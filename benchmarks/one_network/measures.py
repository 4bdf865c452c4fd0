"""Measurements after training: networks under shift, on samples of another set, and their time.

Each training has a file for them beside the run folders, so that a stopped measurement can be continued.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from benchmarks.one_network.queue import Queue
from benchmarks.one_network.rows import ENSEMBLE, SEEDS
from sae.analysis.bootstrap import RESAMPLES, resampled_means
from sae.analysis.contestants import scaled
from sae.analysis.intervals import Side, combine
from sae.analysis.sample_metrics import sample_metric
from sae.analysis.temperature import losses
from sae.core.predictive import Categorical
from sae.data.batches import evaluation_batches
from sae.data.corruptions import ALL_SETS, CorruptedImages
from sae.deploy.bench import bench
from sae.deploy.latency import Effort
from sae.records.predictions import Predictions
from sae.records.run import RunRecord
from sae.training.evaluator import member_outputs, predictive_at
from sae.training.run import preparation, restore
from sae.training.run_evaluation import evaluate

Values = NDArray[np.float64]
PER_SAMPLE = ("nll", "nll_scaled")
OVER_SETS = ("accuracy", "cc_ece", "cc_ece_scaled")
BATCHES = (1, 64)


@dataclass(frozen=True)
class Shifted:
    """A network on the 95 corrupted versions of the test images.

    Attributes:
        samples: Metric to its mean over the sets, for each test image.
        sets: Metric to its mean over the sets.
    """

    samples: dict[str, Values]
    sets: dict[str, float]

    def mean(self, name: str) -> float:
        """Return the mean of a metric over sets and images."""
        return float(self.samples[name].mean()) if name in self.samples else self.sets[name]


def shift_file(queue: Queue, row: str, seed: int) -> Path:
    """Return the file of a training's measurement under shift."""
    run = queue.folder(row, queue.best_rate(row), seed)
    return run.parent / "shifted" / f"{run.name}.npz"


def shifted(queue: Queue, row: str, seed: int) -> Shifted:
    """Return the stored measurement under shift."""
    with np.load(shift_file(queue, row, seed)) as stored:
        return Shifted({key: stored[key] for key in PER_SAMPLE}, {key: float(stored[key]) for key in OVER_SETS})


def measure_shift(queue: Queue, rows: Sequence[str]) -> None:
    """Measure under shift all trainings of some rows that were not measured before, and store the results."""
    wanted = [(row, seed) for row in rows for seed in queue.seeds(row) if not shift_file(queue, row, seed).exists()]
    runs = [queue.folder(row, queue.best_rate(row), seed) for row, seed in wanted]
    for (row, seed), found in zip(wanted, under_shift(runs) if runs else [], strict=True):
        path = shift_file(queue, row, seed)
        path.parent.mkdir(exist_ok=True)
        partial = path.with_suffix(".partial")
        arrays = {**found.samples, **{key: np.asarray(value) for key, value in found.sets.items()}}
        with partial.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
        partial.rename(path)


def under_shift(runs: Sequence[Path]) -> list[Shifted]:
    """Measure trained networks on every corrupted set; their temperatures are those of the clean validation split.

    All must have the same data, which are corrupted once for all of them.
    """
    networks = [OnSets(RunRecord.open(run)) for run in runs]
    test = networks[0].dataset.test
    for images in CorruptedImages(test.inputs).each(ALL_SETS):
        for network in networks:
            network.add(images, test.targets)
    return [network.result() for network in networks]


class OnSets:
    """A network and what was measured of it on corrupted sets so far."""

    def __init__(self, record: RunRecord) -> None:
        self.method, self.dataset = restore(record)
        self.prepare = preparation(self.dataset, "cpu")
        self.kept, self.exits = Predictions.read(record), record.read_evaluation().exits
        self.samples: dict[str, list[Values]] = {key: [] for key in PER_SAMPLE}
        self.sets: dict[str, list[float]] = {key: [] for key in OVER_SETS}

    def add(self, images: NDArray[np.uint8], targets: NDArray[np.number]) -> None:
        """Measure it on one more set."""
        outputs = member_outputs(self.method, evaluation_batches(images, self.prepare))
        predictive = predictive_at(self.method, outputs, self.exits)
        assert isinstance(predictive, Categorical), "the sets of this benchmark have classes"
        task, raw = self.kept.task, predictive.log_probs.numpy()
        calm = scaled(task, self.kept.val.readings[self.exits], self.kept.val, raw)
        self.samples["nll"].append(losses(task, raw, targets))
        self.samples["nll_scaled"].append(losses(task, calm, targets))
        for key in OVER_SETS:
            numbers = calm if key.endswith("_scaled") else raw
            self.sets[key].append(sample_metric(key, task).value(numbers, targets))

    def result(self) -> Shifted:
        """Return the means over all sets."""
        return Shifted(
            {key: np.mean(found, axis=0) for key, found in self.samples.items()},
            {key: float(np.mean(found)) for key, found in self.sets.items()},
        )


def shifted_difference(one: Sequence[Shifted], other: Sequence[Shifted], name: str) -> tuple[float, float, float]:
    """Return the difference of a metric under shift, and its interval over images and seeds."""
    runs = [csr_array(item.samples[name][:, None]) for item in (*one, *other)]
    drawn = np.stack([means[:, 0] for means in resampled_means(runs, RESAMPLES, seed=0)], axis=1)
    points = np.array([item.mean(name) for item in (*one, *other)])
    sides = [Side(points[part], drawn[:, part]) for part in (slice(len(one)), slice(len(one), None))]
    estimate = combine(sides, [1, -1])
    return (estimate.value, *estimate.interval)


def detected(queue: Queue, row: str, seed: int, other: str) -> float:
    """Return the AUROC with which predictive entropy detects images of another set."""
    run = queue.folder(row, queue.best_rate(row), seed)
    path = run.parent / "detected" / f"{run.name}-{other}.json"
    if not path.exists():
        found = evaluate(run, eval_exits=RunRecord(run).read_evaluation().exits, ood=other).ood
        assert found is not None, "it was asked for"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(dict(found.metrics)), encoding="utf-8")
    return float(json.loads(path.read_text(encoding="utf-8"))["auroc_entropy"])


def milliseconds(queue: Queue, rows: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the time of every row relative to the ensemble's, in onnxruntime, by batch size; all in one measurement.

    The key `control` holds the ensemble's own time when it was measured once more.
    """
    names = [ENSEMBLE, *(row for row in rows if row != ENSEMBLE)]
    runs = [queue.folder(row, queue.best_rate(row), SEEDS[0]) for row in names]
    found = bench(runs, BATCHES, effort=Effort(repeats=20, sessions=3))
    models = {model.label: model for model in found.models}
    ratios: dict[str, dict[str, float]] = {name: {} for name in (*names, "control")}
    for batch in found.batches:
        times = {
            models[item.label].model: item.times.cpu_ms
            for item in batch.rows
            if models[item.label].runtime == "onnxruntime"
        }
        whole = times[str(runs[0])]
        for name, run in zip(names, runs, strict=True):
            ratios[name][str(batch.batch)] = times[str(run)] / whole
        ratios["control"][str(batch.batch)] = batch.control.cpu_ms / whole
    return ratios
