"""Which rule for a temperature does not harm: candidates on real sets, validation sizes and kinds of networks.

    python -m benchmarks.temperature            # trains and judges: some minutes of one core; stored
    python -m benchmarks.temperature --write    # the stored results into docs/benchmarks.md

The sets of MedMNIST are files of a data root, Fashion-MNIST is of Debian's package, the others are in scikit-learn.

Each seed trains a standard network and an SAE with one input, and splits the samples that did not train into validation
and test. Standard networks of four seeds are a deep ensemble. Predictions are kept after an eighth of the epochs and
after all of them. All candidates see the same random parts of
the validation samples, four of each size. Harm is the test NLL after scaling minus the NLL before it. A cell is a set,
a number of validation samples and a kind of network; its number is the mean over seeds and parts.

The candidates were written down before any of their results were seen. The rule was chosen on half of the sets.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.docs_tables import write_tables
from sae.analysis.ensemble_equivalent import subset_mean
from sae.analysis.temperature import COLDEST, HOTTEST, losses, tempered
from sae.config.run import DataConfig, parse_run
from sae.core.objectives import TaskName
from sae.core.predictive import as_numbers
from sae.core.task import Classification, DataSpec, Regression
from sae.data.batches import evaluation_batches
from sae.data.catalogue import load
from sae.data.corruptions import corrupt
from sae.data.dataset import Dataset, Normalisation, Split
from sae.data.locations import cache_root
from sae.methods import build_method
from sae.records.predictions import Numbers
from sae.training.evaluator import member_outputs, predictive_at
from sae.training.trainer import Trainer

STORED = Path(__file__).with_suffix(".json")
SEEDS = range(10)
SIZES = (30, 60, 120, 250, 500, 1000, 2000)
PARTS, LARGE = 4, 250
"""Random parts of the validation samples of each size up to the large one; there is one of each larger size."""
LIMIT = 0.005
"""The most harm that a cell may have, in nats."""
EARLY = 8
"""The early networks have trained this part of the epochs."""
STEP = 0.1
GRID = np.arange(round(np.log(COLDEST) / STEP), round(np.log(HOTTEST) / STEP) + 1) * STEP
"""Values of log T; 0 is one of them."""
ONE = int(np.flatnonzero(GRID == 0)[0])
CORRUPTIONS = (("gaussian_noise", 2), ("defocus_blur", 2), ("contrast", 3), ("jpeg_compression", 4))
NOISES = (0.5, 1.0)
"""Shifts of a table: noise on every feature, in its standard deviations."""
TESTED = 2000
"""Test samples, at most."""
SHIFTED = 500
"""Test samples that are shifted, at most."""
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Source:
    """A data set: how to read it, and how many samples train and validate; the others test.

    Attributes:
        name: Its name in tables.
        half: 1 if the rule was chosen on it, 2 if it was only reported.
        train: Training samples.
        val: Validation samples, at most.
        epochs: Epochs of the late networks.
        backbone: The backbone of all networks.
        data: Its name in the catalogue or in scikit-learn, or its file in a data root.
        task: classification or regression.
    """

    name: str
    half: int
    train: int
    val: int
    epochs: int
    backbone: str
    data: str
    task: TaskName = "classification"

    @property
    def batch(self) -> int:
        """Batches of the networks."""
        return 32 if self.train <= 150 else 64

    def samples(self) -> tuple[Split, Split | None]:
        """Return all samples, and an official test split apart if it is unlike the others."""
        if self.data in ("iris", "wine", "breast_cancer", "diabetes"):
            import sklearn.datasets

            return Split(*getattr(sklearn.datasets, f"load_{self.data}")(return_X_y=True)), None
        read = load(DataConfig(name=self.data, task=self.task if self.data.endswith(".npz") else None))
        splits, most = [read.train, read.val, read.test], self.train + self.val + TESTED
        official = splits.pop() if self.name == "pneumonia" else None
        inputs = np.concatenate([split.inputs[:most] for split in splits])
        return Split(inputs, np.concatenate([split.targets[:most] for split in splits])), official

    def dataset(self) -> Dataset:
        """Return the set with fixed training samples; all others are its test split, as a test split of its own is."""
        samples, official = self.samples()
        order = np.random.default_rng(0).permutation(len(samples))
        parts = order[: self.train], order[self.train : self.train + self.val + TESTED]
        train, rest = (Split(samples.inputs[rows], samples.targets[rows]) for rows in parts)
        inputs, targets = np.asarray(train.inputs, dtype=np.float64), train.targets
        axes = (0, 2, 3) if inputs.ndim == 4 else (0,)
        normalisation = Normalisation(tuple(inputs.mean(axis=axes)), tuple(inputs.std(axis=axes) + 1e-9))
        task = (
            Regression(float(targets.mean()), float(targets.std()))
            if self.task == "regression"
            else Classification(int(samples.targets.max()) + 1)
        )
        return Dataset(self.name, DataSpec(inputs.shape[1:], task), normalisation, train, rest, official or rest)


SOURCES = (
    Source("digits", 1, 900, 400, 10, "vgg", "digits"),
    Source("iris", 1, 60, 30, 80, "fc", "iris"),
    Source("pneumonia", 1, 600, 2000, 24, "fc", "pneumoniamnist.npz"),
    Source("fashion", 1, 1000, 2000, 12, "fc", "fashionmnist"),
    Source("diabetes", 1, 150, 120, 40, "fc", "diabetes", "regression"),
    Source("wine", 2, 60, 60, 80, "fc", "wine"),
    Source("breast cancer", 2, 150, 250, 40, "fc", "breast_cancer"),
    Source("blood", 2, 800, 2000, 8, "vgg", "bloodmnist-rebuilt.npz"),
    Source("retina", 2, 400, 500, 24, "fc", "retinamnist.npz"),
    Source("retina, values", 2, 400, 500, 24, "fc", "retinamnist.npz", "regression"),
)
METHODS = {"standard": {"name": "standard"}, "SAE": {"name": "sae", "inputs": 1, "exits": 3}}
KINDS = ("standard", "ensemble", "SAE")
AGES = ("early", "late")
MEMBERS = 4
"""Members of an ensemble: the standard networks of so many seeds, from its own on."""


def shifted(dataset: Dataset) -> Iterator[Split]:
    """Yield the first samples that did not train under each shift."""
    inputs, targets = dataset.val.inputs[:SHIFTED], dataset.val.targets[:SHIFTED]
    if inputs.ndim == 4:
        for name, severity in CORRUPTIONS:
            yield Split(corrupt(inputs, name, severity, seed=0), targets)
        return
    rng, deviation = np.random.default_rng(0), np.array(dataset.normalisation.std)
    for noise in NOISES:
        yield Split(inputs + noise * deviation * rng.standard_normal(inputs.shape), targets)


def train(source: Source) -> None:
    """Train the networks of a set whose predictions are not kept yet, and keep them."""
    dataset = source.dataset()
    splits = {"rest": dataset.val, **{f"shift {number}": split for number, split in enumerate(shifted(dataset))}}
    splits |= {"official": dataset.test} if dataset.test is not dataset.val else {}
    targets = {f"{name} targets": split.targets for name, split in splits.items()}
    for seed in SEEDS:
        for name, method in METHODS.items():
            if kept(source, seed, name, "late").exists():
                continue
            layers = (
                {"data": {"name": source.name}, "backbone": {"name": source.backbone}, "seed": seed},
                {"method": method, "train": {"batch_size": source.batch, "epochs": source.epochs, "lr": 3e-3}},
            )
            config = parse_run(*layers)
            trainer = Trainer(build_method(config.method, config.backbone, dataset.spec, seed), dataset, config)
            for epoch in range(1, source.epochs + 1):
                trainer.train_epoch(epoch - 1)
                if epoch in (source.epochs // EARLY, source.epochs):
                    path = kept(source, seed, name, AGES[epoch == source.epochs])
                    path.parent.mkdir(parents=True, exist_ok=True)
                    numbers = {name: predicted(trainer, split) for name, split in splits.items()}
                    np.savez(path, allow_pickle=False, **targets, **numbers)


def predicted(trainer: Trainer, split: Split) -> NDArray[np.float32]:
    """Return log-probabilities, or mean and variance, of the samples of a split."""
    outputs = member_outputs(trainer.method, evaluation_batches(split.inputs, trainer.prepare))
    return as_numbers(predictive_at(trainer.method, outputs, trainer.method.exits)).numpy()


def kept(source: Source, seed: int, name: str, age: str) -> Path:
    """Return the file that keeps the predictions of a network."""
    return cache_root() / "benchmarks" / "temperature" / f"{source.name}-{seed}-{name}-{age}.npz".replace(" ", "-")


def predictions(source: Source, seed: int, kind: str, age: str) -> dict[str, NDArray[Any]]:
    """Return the predictions and the targets of a network; those of an ensemble are means of standard networks."""
    if kind != "ensemble":
        return dict(np.load(kept(source, seed, kind, age)))
    members = [predictions(source, (seed + more) % len(SEEDS), "standard", age) for more in range(MEMBERS)]
    return {
        name: members[0][name]
        if name.endswith("targets")
        else subset_mean(source.task, np.stack([member[name] for member in members]))
        for name in members[0]
    }


@dataclass(frozen=True)
class Curves:
    """Losses of samples at every temperature of the grid.

    Attributes:
        losses: Of the targets, (sample, temperature).
        expected: Of targets that are drawn from the predictions themselves, (sample, temperature).
        is_error: Whether the most probable class is wrong; true for real values, which are never exact, (sample,).
        doubt: The probability of that by the prediction itself, (sample,).
    """

    losses: NDArray[np.float32]
    expected: NDArray[np.float32]
    is_error: NDArray[np.bool_]
    doubt: Values

    def part(self, rows: NDArray[np.int64]) -> "Curves":
        """Return the curves of some samples."""
        return Curves(self.losses[rows], self.expected[rows], self.is_error[rows], self.doubt[rows])

    @cached_property
    def total(self) -> Values:
        """The sum over samples, (temperature,)."""
        total: Values = self.losses.sum(axis=0, dtype=np.float64)
        return total

    @cached_property
    def mean_expected(self) -> Values:
        """The mean over samples of what predictions expect, (temperature,)."""
        mean: Values = self.expected.mean(axis=0, dtype=np.float64)
        return mean

    def harm(self, rows: NDArray[np.int64]) -> Values:
        """Return the mean loss of some samples less that at T = 1, (temperature,)."""
        mean: Values = self.losses[rows].mean(axis=0, dtype=np.float64)
        harm: Values = mean - mean[ONE]
        return harm

    @classmethod
    def of(cls, task: TaskName, numbers: Numbers, targets: NDArray[np.number]) -> "Curves":
        """Compute the curves of predictions."""
        exact = numbers.astype(np.float64)
        scaled = [tempered(task, exact, float(np.exp(point))) for point in GRID]
        found = np.stack([losses(task, at, targets) for at in scaled], axis=1).astype(np.float32)
        if task == "regression":
            expected = np.stack([0.5 * (np.log(at[:, 1]) + exact[:, 1] / at[:, 1]) for at in scaled], axis=1)
            return cls(found, expected.astype(np.float32), np.ones(len(targets), bool), np.ones(len(targets)))
        expected = np.stack([-(np.exp(exact) * at).sum(axis=1) for at in scaled], axis=1)
        is_error, doubt = exact.argmax(axis=1) != targets, 1 - np.exp(exact.max(axis=1))
        return cls(found, expected.astype(np.float32), is_error, doubt)


Rule = Callable[[Curves], int]
"""Returns the place of log T on the grid, given the curves of validation samples."""


def cauchy(curves: Curves, weight: float = 1) -> int:
    """Return the most probable T under a Cauchy prior on log T of scale 0.5; the weight multiplies its logarithm."""
    return int(np.argmin(curves.total + weight * np.log1p((GRID / 0.5) ** 2)))


def normal(curves: Curves, scale: float) -> int:
    """Return the most probable T under a normal prior on log T."""
    return int(np.argmin(curves.total + 0.5 * (GRID / scale) ** 2))


def own(curves: Curves, samples: float) -> int:
    """Return the most likely T after pseudo-samples whose targets are drawn from the predictions themselves."""
    return int(np.argmin(curves.total + samples * curves.mean_expected))


def own_errors(curves: Curves, errors: float) -> int:
    """Like `own`, with as many pseudo-samples as have this number of errors."""
    return own(curves, errors * (len(curves.losses) + 1) / (curves.is_error.sum() + 1))


def seen_or_own_errors(curves: Curves, errors: float) -> int:
    """Like `own_errors`, but the pseudo-samples may not hold more errors than that by their own doubts, either."""
    rate = max((curves.is_error.sum() + 1) / (len(curves.losses) + 1), curves.doubt.mean())
    return own(curves, errors / rate)


def cross_validated(curves: Curves, base: Rule, errors: float) -> int:
    """Keep T of a rule if its gain in five folds is more than so many standard errors."""
    count = len(curves.losses)
    fold_of, gains = np.random.default_rng(0).permutation(count) % 5, np.empty(count)
    for fold in range(5):
        place = base(curves.part(np.flatnonzero(fold_of != fold)))
        gains[fold_of == fold] = (curves.losses[:, ONE] - curves.losses[:, place])[fold_of == fold]
    return base(curves) if gains.sum() > errors * gains.std() * np.sqrt(count) else ONE


def bounded_harm(curves: Curves, errors: float, samples: float) -> int:
    """Return the T whose harm has the lowest upper bound: mean plus so many standard errors, with `own` as prior."""
    harm = curves.losses - curves.losses[:, [ONE]]
    bound = curves.total + errors * harm.std(axis=0) * np.sqrt(len(harm))
    return int(np.argmin(bound + samples * curves.mean_expected))


def shrunk(curves: Curves, amount: float) -> int:
    """Shrink log T by its squared standard error from the sandwich formula, over its square (James and Stein)."""
    place = cauchy(curves)
    if not 0 < place < len(GRID) - 1 or place == ONE:
        return ONE
    scores = (curves.losses[:, place + 1] - curves.losses[:, place - 1]) / (2 * STEP)
    total = curves.total[place - 1 : place + 2]
    curvature = max((total[0] - 2 * total[1] + total[2]) / STEP**2, 1e-9)
    variance = np.square(scores).sum() / curvature**2
    kept = GRID[place] * max(0.0, 1 - amount * variance / GRID[place] ** 2)
    return int(np.abs(GRID - kept).argmin())


def flatter(curves: Curves, base: Rule) -> int:
    """Never sharpen."""
    return max(base(curves), ONE)


def before(curves: Curves) -> int:
    """Return T by the rule up to version 0.5: a weak prior; with fewer than 500 samples T is 1 unless folds gain."""
    return cauchy(curves) if len(curves.losses) >= 500 else cross_validated(curves, cauchy, 0)


RULES: Mapping[str, Rule] = {
    "before: weak prior, folds below 500": before,
    "most likely": partial(cauchy, weight=0),
    **{f"Cauchy prior × {weight}": partial(cauchy, weight=weight) for weight in (4, 16)},
    **{f"normal prior, {scale}": partial(normal, scale=scale) for scale in (0.5, 0.25, 0.1)},
    **{f"{count} own samples": partial(own, samples=count) for count in (5, 10, 20, 50, 100, 200)},
    **{f"{count} own errors": partial(own_errors, errors=count) for count in (2, 5, 10, 20)},
    **{f"folds, {errors} standard errors": partial(cross_validated, base=cauchy, errors=errors) for errors in (1, 2)},
    **{
        f"least bound, {errors} standard errors, {count} own samples": partial(
            bounded_harm, errors=errors, samples=count
        )
        for errors, count in ((0.5, 20), (1, 5), (1, 20), (1, 50), (2, 20))
    },
    **{f"shrunk by {amount} variances": partial(shrunk, amount=amount) for amount in (1, 3)},
    "before, never sharper": partial(flatter, base=before),
    **{f"{count} own samples, never sharper": partial(flatter, base=partial(own, samples=count)) for count in (20, 50)},
    **{f"{count} seen or own errors": partial(seen_or_own_errors, errors=count) for count in (5, 10, 20)},
}
"""The candidates. All but the last were written down before any result was seen. `own errors` holds a network that is
far too modest where it is: it makes few errors, while its pseudo-samples hold many. The last rules were added for that.
"""
CHOSEN = "10 seen or own errors"
BEST = "best on test"


def applied(rule: Rule, curves: Curves) -> int:
    """Return the place of T by a rule; of 1 if it stopped at a bound."""
    place = rule(curves)
    return place if 0 < place < len(GRID) - 1 else ONE


def sizes(source: Source) -> list[int]:
    """Return the numbers of validation samples that a set is judged with."""
    return sorted({min(size, source.val) for size in SIZES})


def judge(source: Source, seed: int, kind: str, age: str) -> Iterator[tuple[str, int, tuple[float, float, float]]]:
    """Yield for each rule and part of the validation samples: its name, their number, and the harm on test samples.

    The last three numbers are the harm clean, under shift, and on the official test split; NaN if that is the rest.
    """
    found = predictions(source, seed, kind, age)
    names = [name for name in found if not name.endswith("targets")]
    curves = {name: Curves.of(source.task, found[name], found[f"{name} targets"]) for name in names}
    for part in range(PARTS):
        order = np.random.default_rng((seed, part)).permutation(len(found["rest"]))
        test = order[source.val :]
        clean = curves["rest"].harm(test)
        shift = np.mean([curves[name].harm(test[test < SHIFTED]) for name in names if name[:5] == "shift"], axis=0)
        every = curves.get("official", curves["rest"])
        official = every.harm(np.arange(len(every.losses))) if "official" in names else np.full(len(GRID), np.nan)
        for size in sizes(source):
            if part and size > LARGE:
                continue
            seen = curves["rest"].part(order[:size])
            places = {name: applied(rule, seen) for name, rule in RULES.items()}
            for name, place in {**places, BEST: int(clean.argmin())}.items():
                yield name, size, (float(clean[place]), float(shift[place]), float(official[place]))


def cells() -> Iterator[dict[str, object]]:
    """Judge all networks; yield each cell, with the numbers of each rule in their order."""
    for source in SOURCES:
        for kind in KINDS:
            for age in AGES:
                found: dict[int, dict[str, list[tuple[float, float, float]]]] = {}
                for seed in SEEDS:
                    for name, size, harm in judge(source, seed, kind, age):
                        found.setdefault(size, {}).setdefault(name, []).append(harm)
                for size, of_rules in found.items():
                    clean = [[harm[0] for harm in harms] for harms in of_rules.values()]
                    others = [[harm[place] for harm in harms] for harms in of_rules.values() for place in (1, 2)]
                    yield {
                        "set": source.name,
                        "samples": size,
                        "network": f"{kind}, {age}",
                        "harm": [round(float(np.mean(values)), 5) for values in clean],
                        "worst": [round(max(values), 4) for values in clean],
                        "shift": [round(float(np.mean(values)), 4) for values in others[::2]],
                        "official": [
                            None if np.isnan(values[0]) else round(float(np.mean(values)), 4) for values in others[1::2]
                        ],
                    }


def table(stored: list[dict[str, Any]]) -> str:
    """Return the candidates with their worst cells, the gain that they keep, and their harm under shift."""
    head = ["rule", *(f"{text}, half {half}" for text in ("worst cell", "cells above 0.005") for half in (1, 2))]
    head += ["worst single seed", "gain kept, up to 120 samples", "from 250", "under shift, median cell", "worst cell"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    half_of = {source.name: source.half for source in SOURCES}
    for place, name in enumerate(RULES):
        harm = [[cell["harm"][place] for cell in stored if half_of[cell["set"]] == half] for half in (1, 2)]
        shift = [cell["shift"][place] for cell in stored]
        texts = [f"**{name}**" if name == CHOSEN else name, *(f"{max(values):+.4f}" for values in harm)]
        texts += [str(sum(value > LIMIT for value in values)) for values in harm]
        texts += [f"{max(cell['worst'][place] for cell in stored):+.3f}"]
        texts += [f"{kept_gain(stored, place, *ends):.0%}" for ends in ((0, 120), (250, 2000))]
        texts += [f"{np.median(shift):+.4f}", f"{max(shift):+.3f}"]
        lines.append(f"| {' | '.join(texts)} |")
    return "\n".join(lines)


def kept_gain(stored: list[dict[str, Any]], place: int, fewest: int, most: int) -> float:
    """Return the mean share of the gain of the T that is best on test samples, over cells where that may be reached."""
    chosen = [cell for cell in stored if fewest <= cell["samples"] <= most and cell["harm"][-1] < -LIMIT]
    return float(np.mean([max(-1, cell["harm"][place] / cell["harm"][-1]) for cell in chosen]))


def sets_table(stored: list[dict[str, Any]]) -> str:
    """Return for each set the worst and the best cell of the rule before and of the chosen one, clean and shifted."""
    head = [
        "set",
        "half",
        "samples",
        *(f"{text}, {which}" for which in ("before", "now") for text in ("clean", "shifted")),
    ]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for source in SOURCES:
        of_set = [cell for cell in stored if cell["set"] == source.name]
        texts = [source.name, str(source.half), f"{min(sizes(source))}–{max(sizes(source)):,}"]
        for place in (0, list(RULES).index(CHOSEN)):
            for key in ("harm", "shift"):
                values = [cell[key][place] for cell in of_set]
                texts.append(f"{min(values):+.4f} to {max(values):+.4f}")
        lines.append(f"| {' | '.join(texts)} |")
    return "\n".join(lines)


def main() -> None:
    """Train and judge, or print what is stored."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="only put the stored results into the docs")
    if not parser.parse_args().write:
        torch.set_num_threads(1)
        for source in SOURCES:
            train(source)
        STORED.write_text("[\n" + ",\n".join(map(json.dumps, cells())) + "\n]\n", encoding="utf-8")
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    write_tables("benchmarks.md", {"temperature rules": table(stored), "temperature sets": sets_table(stored)})


if __name__ == "__main__":
    main()
