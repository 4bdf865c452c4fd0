import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sae.core.errors import ConfigError, DataError
from sae.core.progress import Silent
from sae.data.batches import Preparation, evaluation_batches
from sae.data.catalogue import resolve
from sae.data.corruptions import SHIFT_SEED, corrupt
from sae.measure.metrics import measure_all
from sae.records.run import RunRecord
from sae.training.evaluator import member_outputs, predictive_at
from sae.training.run import restore, train
from sae.training.run_evaluation import evaluate
from sae.training.shift import evaluate_shift
from tests.builders import run_config
from tests.data.samples import signal_arrays, write_npz

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    config = run_config(train={"epochs": 3}, method={"name": "sae", "inputs": 2, "exits": 1})
    return train(config, tmp_path_factory.mktemp("runs") / "x")


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Corrupted sets go to a folder of this module, whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def test_shift_covers_every_corruption_and_severity(run: RunRecord) -> None:
    shift = evaluate(run.path, shift=True).shift
    assert shift is not None
    chosen = shift.at(shift.exits)
    assert shift.num_sets == len(chosen.sets) == 95
    assert len({(item.corruption, item.severity) for item in chosen.sets}) == 95
    for key in ("f1", "nll", "auroc_entropy"):
        values = [item.metrics[key] for item in chosen.sets]
        assert chosen.metrics[key] == pytest.approx(np.mean(values))
        assert chosen.std_over_sets[key] == pytest.approx(statistics.stdev(values))
    assert [reading.eval_exits for reading in shift.readings] == [1, 2]
    assert chosen is shift.readings[0]
    assert chosen.sets != shift.readings[1].sets


def test_shift_is_printed_at_the_chosen_exits_and_at_all(run: RunRecord) -> None:
    evaluation = evaluate(run.path, shift=True)
    assert evaluation.shift is not None
    printed: Any = evaluation.to_json()["shift"]
    chosen = evaluation.shift.readings[0]
    assert printed["sets"] == len(printed["by_set"]) == 95
    assert printed["metrics"] == printed["by_exits"][0]["metrics"] == chosen.metrics
    assert printed["std_over_sets"] == printed["by_exits"][0]["std_over_sets"] == chosen.std_over_sets
    assert [item["exits"] for item in printed["by_exits"]] == [1, 2]
    assert printed["by_exits"][0]["by_set"] == printed["by_set"] != printed["by_exits"][1]["by_set"]


def test_a_set_is_measured_as_if_it_were_evaluated_by_hand(run: RunRecord) -> None:
    method, dataset = restore(run)
    pixels = corrupt(dataset.test.inputs[:], "zoom_blur", 4, SHIFT_SEED)
    prepare = Preparation(dataset.normalisation, 3, torch.device("cpu"))
    outputs = member_outputs(method, evaluation_batches(pixels, prepare))
    by_hand = measure_all(predictive_at(method, outputs, 1), torch.from_numpy(dataset.test.targets))
    shift = evaluate(run.path, shift=True).shift
    assert shift is not None
    sets = shift.at(1).sets
    found = next(item for item in sets if (item.corruption, item.severity) == ("zoom_blur", 4)).metrics
    assert {key: found[key] for key in by_hand} == pytest.approx(by_hand)


def test_one_set_has_no_spread_over_sets(run: RunRecord) -> None:
    method, dataset = restore(run)
    prepare = Preparation(dataset.normalisation, 3, torch.device("cpu"))
    shift = evaluate_shift(method, dataset, "test", prepare, 1, Silent(), sets=[("fog", 2)])
    reading = shift.at(1)
    assert reading.metrics == reading.sets[0].metrics
    assert reading.std_over_sets == {}


def test_noise_that_no_digit_looks_like_is_told_apart(run: RunRecord, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (200, 16, 16), dtype=np.uint8)
    np.savez(tmp_path / "noise.npz", images=noise)
    found = evaluate(run.path, ood=str(tmp_path / "noise.npz")).ood
    assert found is not None
    assert set(found.to_json()) == {"set", "auroc_entropy", "fpr95_entropy", "auroc_disagreement", "fpr95_disagreement"}
    assert found.metrics["auroc_entropy"] > 0.7


def test_samples_of_its_own_are_not_told_apart(run: RunRecord) -> None:
    found = evaluate(run.path, ood="digits").ood
    assert found is not None
    assert found.metrics["auroc_entropy"] == pytest.approx(0.5)


def test_another_set_must_have_the_same_shape(run: RunRecord, tmp_path: Path) -> None:
    np.savez(tmp_path / "large.npz", images=np.zeros((3, 20, 20), np.uint8))
    with pytest.raises(ConfigError, match=r"must have the shape of digits, \(1, 16, 16\), got \(1, 20, 20\)"):
        evaluate(run.path, ood=str(tmp_path / "large.npz"))


def test_another_set_without_images_is_refused(run: RunRecord, tmp_path: Path) -> None:
    np.savez(tmp_path / "none.npz", pixels=np.zeros((3, 16, 16), np.uint8))
    with pytest.raises(DataError, match=r"must hold one of test_images, .*, images, signals, x; got pixels"):
        evaluate(run.path, ood=str(tmp_path / "none.npz"))


def test_signals_have_no_shift_but_other_signals(tmp_path: Path) -> None:
    data = write_npz(tmp_path / "s.npz", signal_arrays())
    settings = {"data": {"name": str(data), "task": "classification"}, "train": {"epochs": 1}}
    record = train(resolve(settings), tmp_path / "x")
    with pytest.raises(ConfigError, match=r"--shift needs images, but .*s\.npz is a set of signals, for which no"):
        evaluate(record.path, shift=True)
    other = write_npz(tmp_path / "o.npz", {"signals": np.zeros((3, 2, 9))})
    found = evaluate(record.path, ood=str(other)).ood
    assert found is not None
    assert 0 <= found.metrics["auroc_entropy"] <= 1


def test_a_table_has_no_shift(tmp_path: Path) -> None:
    record = train(run_config(data={"name": "diabetes"}, train={"epochs": 1}), tmp_path / "x")
    with pytest.raises(ConfigError, match="--shift needs images, but diabetes is a table"):
        evaluate(record.path, shift=True)


def test_another_set_on_another_scale_is_refused(run: RunRecord, tmp_path: Path) -> None:
    np.savez(tmp_path / "deep.npz", images=np.zeros((3, 16, 16), np.uint16))
    with pytest.raises(ConfigError, match="must be uint8 like those of digits, got float32"):
        evaluate(run.path, ood=str(tmp_path / "deep.npz"))
