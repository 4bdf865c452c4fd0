from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from sae.cli import app
from sae.core.errors import RecordError
from sae.core.predictive import Categorical, Gaussian
from sae.data.catalogue import resolve
from sae.measure.metrics import measure_all
from sae.records.predictions import Predictions
from sae.records.run import RunRecord
from sae.training.predictions import keep_predictions
from sae.training.run import train

pytestmark = pytest.mark.long


def trained(folder: Path, data: str, **method: object) -> RunRecord:
    config = resolve({"data": data, "method": method, "backbone": {"name": "fc", "depth": 2}, "train": {"epochs": 1}})
    return train(config, folder)


@pytest.mark.parametrize("data", ["digits", "diabetes"])
def test_what_is_kept_has_the_metrics_that_the_run_recorded(tmp_path: Path, data: str) -> None:
    record = trained(tmp_path / "run", data, name="sae", inputs=2, exits=2)
    keep_predictions(record.path)
    kept, recorded = Predictions.read(record), record.read_evaluation()
    for split, evaluation in ((kept.val, recorded.val), (kept.test, recorded.test)):
        assert list(split.readings) == [reading.eval_exits for reading in evaluation.readings]
        assert split.members is None
        targets = torch.from_numpy(split.targets)
        for reading in evaluation.readings:
            numbers = torch.from_numpy(split.readings[reading.eval_exits])
            predictive = Categorical(numbers) if data == "digits" else Gaussian(numbers[:, 0], numbers[:, 1])
            for key, value in measure_all(predictive, targets).items():
                assert value == pytest.approx(reading.metrics[key], rel=1e-6), key


def test_the_members_of_an_ensemble_are_kept_and_average_to_its_prediction(tmp_path: Path) -> None:
    record = trained(tmp_path / "run", "digits", name="ensemble", members=3)
    keep_predictions(record.path)
    test = Predictions.read(record).test
    assert test.members is not None
    assert test.members.shape == (3, *test.readings[1].shape)
    np.testing.assert_allclose(np.exp(test.members).mean(axis=0), np.exp(test.readings[1]), atol=1e-6)


def test_runs_on_the_same_samples_have_the_same_hash_and_others_do_not(tmp_path: Path) -> None:
    one = trained(tmp_path / "one", "digits", name="standard")
    other = train(resolve({"data": {"name": "digits", "split_seed": 1}, "train": {"epochs": 1}}), tmp_path / "other")
    few = train(resolve({"data": {"name": "digits", "train_size": 100}, "train": {"epochs": 1}}), tmp_path / "few")
    for record in (one, other, few):
        keep_predictions(record.path)
    hashes = [Predictions.read(record).test.samples for record in (one, other, few)]
    assert hashes[0] == hashes[2] != hashes[1]


def test_predictions_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    record = trained(tmp_path / "run", "digits", name="standard")
    keep_predictions(record.path)
    path = record.path / record.PREDICTIONS
    before = path.read_bytes()
    path.unlink()
    keep_predictions(record.path)
    assert path.read_bytes() == before


def test_the_commands_keep_predictions_if_asked(tmp_path: Path) -> None:
    arguments = ["train", "--data", "digits", "--method", "standard", "--epochs", "1", "--out", str(tmp_path / "run")]
    record = RunRecord(tmp_path / "run")
    assert CliRunner().invoke(app, arguments).exit_code == 0
    with pytest.raises(RecordError, match=r"has no predictions\.npz: add it with `sae evaluate .* --keep-predictions`"):
        Predictions.read(record)
    assert CliRunner().invoke(app, ["evaluate", str(record.path), "--keep-predictions"]).exit_code == 0
    assert Predictions.read(record).task == "classification"
    assert CliRunner().invoke(app, [*arguments, "--keep-predictions", "--force"]).exit_code == 0
    assert Predictions.read(record).task == "classification"


def test_a_damaged_file_says_what_to_do(tmp_path: Path) -> None:
    record = trained(tmp_path / "run", "digits", name="standard")
    keep_predictions(record.path)
    path = record.path / record.PREDICTIONS
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(RecordError, match=r"is damaged .* delete it, and add it with"):
        Predictions.read(record)
