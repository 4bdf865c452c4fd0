"""Training a finished run again, with the validation samples, too."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from sae.config.run import RunConfig
from sae.config.settings import to_yaml
from sae.core.errors import ConfigError, DataError
from sae.data.binding import Whereabouts, hash_samples
from sae.data.dataset import Dataset
from sae.records.run import RunRecord
from sae.training.refit import refit, refit_config
from sae.training.run import restore, train
from sae.training.run_evaluation import evaluate
from sae.training.trainer import Trainer
from sae.training.trimming import trim
from tests.builders import run_config
from tests.data.samples import npz_arrays, signal_arrays, table_rows, write_csv, write_npz
from tests.training.interruptions import StopError, results

FC: dict[str, Any] = {"name": "fc", "depth": 2}


def table_config(folder: Path, **more: Any) -> RunConfig:
    data = {"name": str(write_csv(folder / "data.csv", table_rows(80))), "task": "regression", "target": "price"}
    return run_config(data=data, **{"backbone": FC, "train": {"epochs": 4, "batch_size": 16, "patience": 4}, **more})


@pytest.fixture
def run(tmp_path: Path) -> RunRecord:
    return train(table_config(tmp_path), tmp_path / "run")


def watch_training(monkeypatch: pytest.MonkeyPatch) -> dict[str, Dataset]:
    """The data that each training of a refit trains and validates on, by `train.val_too`."""
    seen: dict[str, Dataset] = {}
    whole = Trainer.train_epoch

    def watched(self: Trainer, epoch: int, *rest: Any) -> dict[str, float]:
        seen[self.config.train.val_too] = self.dataset
        return whole(self, epoch, *rest)

    monkeypatch.setattr(Trainer, "train_epoch", watched)
    return seen


def test_folds_validate_on_samples_that_they_are_not_trained_on(
    run: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, (_, given) = watch_training(monkeypatch), restore(run)
    found = refit(run)
    assert [fold.read_config().train.val_too for fold in found.folds] == ["first", "second"]
    train_, val = ({*hash_samples(part).tolist()} for part in (given.train, given.val))
    unseen = [hash_samples(seen[fold].val).tolist() for fold in ("first", "second")]
    assert {*unseen[0], *unseen[1]} == val
    assert len(unseen[0]) + len(unseen[1]) == len(given.val)
    for fold, others in zip(("first", "second"), unseen, strict=True):
        assert {*hash_samples(seen[fold].train).tolist()} == (train_ | val) - {*others}
    assert {*hash_samples(seen["all"].train).tolist()} == train_ | val


def test_the_last_training_takes_as_many_updates_as_the_best_epoch_had_seen() -> None:
    config = run_config(train={"epochs": 100, "batch_size": 10, "patience": 20})
    history = [{"val_nll": abs(epoch - 40.0)} for epoch in range(1, 61)]
    found = refit_config(config, history, "all", num_train=600, num_val=200).train
    assert (found.epochs, found.stop_at) == (75, 30)
    assert found.last_epoch * (800 / 10) == 40 * (600 / 10)
    assert (found.patience, found.keep, found.ema) == (0, "last", 0.98)
    fold = refit_config(config, history, "first", num_train=600, num_val=200).train
    assert fold.last_epoch == round(40 * 600 / 700)


def test_a_training_to_its_end_is_trained_to_its_end_again() -> None:
    found = refit_config(run_config(train={"epochs": 10}), [], "all", num_train=40, num_val=10).train
    assert (found.epochs, found.stop_at, found.ema) == (8, None, 0.0)


def test_configs_of_earlier_runs_stay_the_same() -> None:
    written = yaml.safe_load(to_yaml(run_config()))
    assert not {"stop_at", "val_too"} & {*written["train"]}


def test_the_finished_run_does_not_change(run: RunRecord) -> None:
    before = {path.name: path.read_bytes() for path in run.path.iterdir() if path.is_file()}
    refit(run)
    assert {path.name: path.read_bytes() for path in run.path.iterdir() if path.is_file()} == before


def test_an_interrupted_refit_continues_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = table_config(tmp_path, train={"epochs": 4, "batch_size": 16})
    whole = refit(train(config, tmp_path / "whole"))
    run = train(config, tmp_path / "run")
    train_epoch, count = Trainer.train_epoch, 0

    def interrupted(self: Trainer, epoch: int, *rest: Any) -> dict[str, float]:
        nonlocal count
        count += 1
        if count == 2:
            raise StopError
        return train_epoch(self, epoch, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_epoch", interrupted)
        with pytest.raises(StopError):
            refit(run)
    again = refit(run)
    for one, other in zip((whole.whole, *whole.folds), (again.whole, *again.folds), strict=True):
        assert results(one) == results(other)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_epoch", None)
        refit(run)  # nothing is trained a third time


def test_starting_a_run_over_deletes_its_refit(run: RunRecord) -> None:
    refit(run)
    train(run.read_config().model_copy(update={"seed": 1}), run.path, force=True)
    assert not (run.path / run.REFIT).exists()


@pytest.mark.parametrize("method", [{"name": "ensemble", "members": 2}, {"name": "sae", "inputs": 2}])
def test_ensembles_and_streams_of_inputs_are_trained_again(tmp_path: Path, method: dict[str, Any]) -> None:
    found = refit(train(table_config(tmp_path, method=method), tmp_path / "run"))
    assert found.whole.has_finished()


def test_of_a_split_in_time_only_the_later_half_is_predicted(tmp_path: Path) -> None:
    data = {"name": str(write_csv(tmp_path / "data.csv", table_rows(80))), "task": "regression"}
    config = run_config(data={**data, "target": "price", "time": "age"}, backbone=FC, train={"epochs": 2})
    found = refit(train(config, tmp_path / "run"))
    assert [fold.read_config().train.val_too for fold in found.folds] == ["first"]


def test_a_student_learns_from_the_same_teacher_again(tmp_path: Path) -> None:
    teacher = train(table_config(tmp_path, method={"name": "ensemble", "members": 2}), tmp_path / "teacher")
    config = table_config(tmp_path, method={"name": "sae", "inputs": 2}, teacher={"run": str(teacher.path)})
    run = train(config, tmp_path / "run")
    found = refit(run)
    assert (found.whole.path / run.TEACHER).read_bytes() == (run.path / run.TEACHER).read_bytes()
    train(teacher.read_config().model_copy(update={"seed": 1}), teacher.path, force=True)
    with pytest.raises(ConfigError, match=r"its teacher .* has changed since: leave out --refit"):
        refit(run)
    teacher.remove()
    with pytest.raises(ConfigError, match="its teacher is missing"):
        refit(run)


def test_a_trimmed_run_is_refused(tmp_path: Path) -> None:
    run = train(table_config(tmp_path, method={"name": "sae", "inputs": 2}), tmp_path / "run")
    trim(run.path, tmp_path / "trimmed", {"flops": 1e9})
    with pytest.raises(ConfigError, match="members were taken from another run: leave out --refit"):
        refit(RunRecord(tmp_path / "trimmed"))


def test_nothing_is_measured_on_samples_that_were_trained_on(run: RunRecord) -> None:
    found = refit(run)
    for record in (found.whole, *found.folds):
        with pytest.raises(ConfigError, match=r"trained on validation samples, too.* give the run that it came from"):
            evaluate(record.path, "val")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"val_too": "all", "patience": 3}, "val_too must not be all if validation samples choose the epoch"),
        ({"stop_at": 9, "epochs": 5}, "stop_at must be at most train.epochs, 5, got 9"),
    ],
)
def test_settings_without_a_meaning_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run_config(train=settings)


def test_other_data_are_never_trained_on(run: RunRecord, tmp_path: Path) -> None:
    write_csv(tmp_path / "other.csv", table_rows(81))
    with pytest.raises(DataError, match="must hold the data that the run was trained on"):
        refit(run, Whereabouts(tmp_path / "other.csv", allow_other=True))
    assert not RunRecord(run.refit_folder("all")).has(RunRecord.CONFIG)


@pytest.mark.parametrize("kind", ["images", "signals"])
def test_varied_images_and_signals_are_trained_again(tmp_path: Path, kind: str) -> None:
    varied: dict[str, float] = {"flip": True, "crop": 2}
    backbone = {"name": "vgg", "depth": 2}
    arrays = npz_arrays(side=16, channels=1) if kind == "images" else signal_arrays()
    if kind == "signals":
        varied, backbone = {"jitter": 0.1}, {"name": "conv1d", "depth": 2}
    data = {"name": str(write_npz(tmp_path / "data.npz", arrays)), "task": "classification", **varied}
    run = train(run_config(data=data, backbone=backbone, train={"epochs": 1, "batch_size": 8}), tmp_path / "run")
    assert refit(run).whole.has_finished()


def test_data_that_were_moved_are_found(run: RunRecord, tmp_path: Path) -> None:
    (tmp_path / "data.csv").rename(tmp_path / "moved.csv")
    assert refit(run, Whereabouts(tmp_path / "moved.csv")).whole.has_finished()


def test_two_runs_of_the_same_config_have_the_same_refit(tmp_path: Path) -> None:
    config = table_config(tmp_path)
    one, other = (refit(train(config, tmp_path / name)).whole for name in ("one", "other"))
    assert one.hash_of(one.MODEL) == other.hash_of(other.MODEL)
    arrays = [record.read_arrays(record.MODEL)[0] for record in (one, RunRecord(tmp_path / "one"))]
    assert any(not np.array_equal(arrays[0][name], arrays[1][name]) for name in arrays[0])


def test_a_run_from_before_data_were_recorded_is_refused(run: RunRecord) -> None:
    (run.path / run.DATA).unlink()
    with pytest.raises(ConfigError, match="before runs recorded their data"):
        refit(run)
