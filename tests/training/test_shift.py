import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from sae.core.errors import ConfigError, DataError
from sae.data.batches import Preparation, evaluation_batches
from sae.data.corruptions import SHIFT_SEED, corrupt
from sae.measure.metrics import measure_all
from sae.records.run import RunRecord
from sae.training.evaluator import member_outputs, predictive_at
from sae.training.progress import Silent
from sae.training.run import evaluate, restore, train
from sae.training.shift import evaluate_shift
from tests.builders import run_config


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
    shift = evaluate(run.path, shift=True)["shift"]
    assert shift["sets"] == len(shift["by_set"]) == 95
    assert len({(row["corruption"], row["severity"]) for row in shift["by_set"]}) == 95
    for key in ("f1", "nll", "auroc_entropy"):
        values = [row["metrics"][key] for row in shift["by_set"]]
        assert shift["metrics"][key] == pytest.approx(np.mean(values))
        assert shift["std_over_sets"][key] == pytest.approx(statistics.stdev(values))
    assert [item["exits"] for item in shift["by_exits"]] == [1, 2]
    assert shift["by_exits"][0]["metrics"] == shift["metrics"]
    assert shift["by_exits"][0]["by_set"] == shift["by_set"] != shift["by_exits"][1]["by_set"]


def test_a_set_is_measured_as_if_it_were_evaluated_by_hand(run: RunRecord) -> None:
    method, dataset = restore(run)
    pixels = corrupt(dataset.test.inputs[:], "zoom_blur", 4, SHIFT_SEED)
    prepare = Preparation(dataset.normalisation, 3, torch.device("cpu"))
    outputs = member_outputs(method, evaluation_batches(pixels, prepare))
    by_hand = measure_all(predictive_at(method, outputs, 1), torch.from_numpy(dataset.test.targets))
    rows = evaluate(run.path, shift=True)["shift"]["by_set"]
    found = next(row for row in rows if (row["corruption"], row["severity"]) == ("zoom_blur", 4))["metrics"]
    assert {key: found[key] for key in by_hand} == pytest.approx(by_hand)


def test_one_set_has_no_spread_over_sets(run: RunRecord) -> None:
    method, dataset = restore(run)
    prepare = Preparation(dataset.normalisation, 3, torch.device("cpu"))
    shift = evaluate_shift(method, dataset, "test", prepare, 1, Silent(), sets=[("fog", 2)])
    assert shift["metrics"] == shift["by_set"][0]["metrics"]
    assert shift["std_over_sets"] == {}


def test_noise_that_no_digit_looks_like_is_told_apart(run: RunRecord, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (200, 16, 16), dtype=np.uint8)
    np.savez(tmp_path / "noise.npz", images=noise)
    found = evaluate(run.path, ood=str(tmp_path / "noise.npz"))["ood"]
    assert set(found) == {"set", "auroc_entropy", "fpr95_entropy", "auroc_disagreement", "fpr95_disagreement"}
    assert found["auroc_entropy"] > 0.7


def test_samples_of_its_own_are_not_told_apart(run: RunRecord) -> None:
    assert evaluate(run.path, ood="digits")["ood"]["auroc_entropy"] == pytest.approx(0.5)


def test_another_set_must_have_the_same_shape(run: RunRecord, tmp_path: Path) -> None:
    np.savez(tmp_path / "large.npz", images=np.zeros((3, 20, 20), np.uint8))
    with pytest.raises(ConfigError, match=r"must have the shape of digits, \(1, 16, 16\), got \(1, 20, 20\)"):
        evaluate(run.path, ood=str(tmp_path / "large.npz"))


def test_another_set_without_images_is_refused(run: RunRecord, tmp_path: Path) -> None:
    np.savez(tmp_path / "none.npz", pixels=np.zeros((3, 16, 16), np.uint8))
    with pytest.raises(DataError, match="must hold test_images or images, got pixels"):
        evaluate(run.path, ood=str(tmp_path / "none.npz"))


def test_a_table_has_no_shift(tmp_path: Path) -> None:
    record = train(run_config(data={"name": "diabetes"}, train={"epochs": 1}), tmp_path / "x")
    with pytest.raises(ConfigError, match="--shift needs images, but diabetes is a table"):
        evaluate(record.path, shift=True)
