"""The resumable queue: every training has its own folder, and all rows are tuned in the same way."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.one_network.rows import ROWS, SETS
from sae.config.run import RunConfig
from sae.config.settings import Layer
from sae.core.errors import SaeError
from sae.data.catalogue import resolve
from sae.records.evaluation import Reading
from sae.records.run import RunRecord
from sae.training.predictions import keep_predictions
from sae.training.run import derive, train
from sae.training.trimming import trim

RATES = (3e-4, 1e-3)
LADDER = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
"""Learning rates; `RATES` are tried first, then the next ones as long as the best so far has only one neighbour."""
TUNING_SEED = 100


@dataclass(frozen=True)
class Splits:
    """A network on validation and on test data, at the trained number of exits."""

    val: Reading
    test: Reading


@dataclass(frozen=True)
class Queue:
    """The trainings of one set, each in its own folder; finished trainings are kept.

    Attributes:
        name: The set.
        out: The folder that holds the runs of all sets.
        tuned: Earlier results of tuning, by row and learning rate; they are not repeated.
    """

    name: str
    out: Path
    tuned: dict[str, dict[str, float]] = field(default_factory=dict)

    def folder(self, row: str, rate: float, seed: int) -> Path:
        """Return the folder of one training."""
        return self.out / self.name / f"{row}-{rate:g}-{seed}"

    def config(self, row: str, rate: float, seed: int) -> RunConfig:
        """Return the settings of one training."""
        own, base = ROWS[row], resolve(SETS[self.name].settings)
        layers: list[Layer] = [SETS[self.name].settings, own.settings, {"train": {"lr": rate}, "seed": seed}]
        layers.append({"train": {"epochs": own.epochs * base.train.epochs}})
        layers.append({"backbone": {"width": own.width * base.backbone.width}})
        if own.teacher:
            layers.append({"teacher": {"run": str(self.folder(own.teacher, self.best_rate(own.teacher), seed))}})
        return resolve(*layers)

    def run(self, row: str, rate: float, seed: int) -> RunRecord:
        """Train a network unless it is done; it may also be derived from a network of another row."""
        own, folder, started = ROWS[row], self.folder(row, rate, seed), time.process_time()
        larger = self.folder(own.first_of, rate, seed) if own.first_of else None
        if own.weights_of:
            trim(self.folder(own.weights_of, rate, seed), folder, {}, weights="em")
            record = RunRecord.open(folder)
        elif larger and (larger / RunRecord.STATUS).exists():
            record = derive(self.config(row, rate, seed), folder, larger)
        else:
            record = train(self.config(row, rate, seed), folder)
        if seed != TUNING_SEED and not record.has(RunRecord.PREDICTIONS):
            keep_predictions(folder)
        reading = record.read_evaluation().val.chosen
        spent = time.process_time() - started
        print(f"{folder.name}: validation NLL, scaled {reading.metrics['nll_scaled']:.4f}, {spent:.0f} s", flush=True)
        return record

    def best_rate(self, row: str) -> float:
        """Return the learning rate of the lowest scaled NLL on validation data; all rates must be trained."""
        like = ROWS[row].rate_of
        return self.best_rate(like) if like else min(self.rates(row), key=lambda rate: self.val_nll(row, rate))

    def rates(self, row: str) -> Iterator[float]:
        """Yield the learning rates that a row is tuned over; each must be trained before the next is asked for."""
        tried = list(RATES)
        yield from tried
        while len(tried) < SETS[self.name].most_rates:
            best = min(tried, key=lambda rate: self.val_nll(row, rate))
            if best not in (min(tried), max(tried)):
                return
            step = -1 if best == min(tried) else 1
            tried.append(LADDER[LADDER.index(best) + step])
            yield tried[-1]

    def is_tuned(self, row: str) -> bool:
        """Return whether every learning rate of a row is trained."""
        try:
            self.best_rate(row)
        except SaeError:
            return False
        return True

    def is_done(self, row: str) -> bool:
        """Return whether all seeds of a row are trained."""
        if not self.is_tuned(row):
            return False
        folders = [self.folder(row, self.best_rate(row), seed) for seed in self.seeds(row)]
        return all(RunRecord(folder).has(RunRecord.PREDICTIONS) for folder in folders)

    def val_nll(self, row: str, rate: float) -> float:
        """Return the scaled NLL on validation data of the seed for tuning, trained here or stored earlier."""
        stored = self.tuned.get(row, {}).get(f"{rate:g}")
        return self.read(row, rate, TUNING_SEED).val.metrics["nll_scaled"] if stored is None else stored

    def read(self, row: str, rate: float, seed: int) -> "Splits":
        """Return the measurements of one training."""
        found = RunRecord.open(self.folder(row, rate, seed)).read_evaluation()
        return Splits(found.val.chosen, found.test.chosen)

    def seconds(self, row: str, rate: float, seed: int) -> float:
        """Return the time that one training took."""
        status = RunRecord.open(self.folder(row, rate, seed)).read_status()
        return (status and status.seconds) or 0.0

    def tune(self, rows: Sequence[str]) -> None:
        """Train every row with every learning rate that it chooses from."""
        for row in rows:
            for rate in self.rates(row) if ROWS[row].rate_of is None else ():
                if f"{rate:g}" not in self.tuned.get(row, {}):
                    self.run(row, rate, TUNING_SEED)

    def seeds(self, row: str) -> tuple[int, ...]:
        """Return the seeds of a row."""
        return SETS[self.name].seeds(row)

    def work(self, rows: Sequence[str], only: Sequence[int] | None = None) -> None:
        """Tune every row, then train its seeds, or only some of them."""
        for row in rows:
            self.tune([row])
            for seed in self.seeds(row) if only is None else only:
                self.run(row, self.best_rate(row), seed)
