from pathlib import Path
from typing import Any

import pytest
import torch

from sae.analysis.run_list import num_epochs
from sae.config.run import RunConfig
from sae.core.errors import ConfigError
from sae.data.catalogue import load
from sae.methods import build_method
from sae.records.run import RunRecord, read_run
from sae.training.kept_weights import EarlyStopping, stream_losses
from sae.training.run import derive, train
from tests.builders import run_config
from tests.training.interruptions import StopError, interrupt, results

pytestmark = pytest.mark.long

EPOCHS = 14


def config_of(method: str = "standard", patience: int = 2, **settings: Any) -> RunConfig:
    """A network that soon overfits 265 patients."""
    kept: dict[str, Any] = {key: settings.pop(key) for key in ("keep", "keep_by") if key in settings}
    training = {"epochs": EPOCHS, "lr": 1e-2, "patience": patience, **kept}
    return run_config(data={"name": "diabetes"}, method={"name": method, **settings}, train=training)


def validation_nll(record: RunRecord) -> list[float]:
    return [row["val_nll"] for row in record.read_history()]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    return train(config_of(), tmp_path_factory.mktemp("runs") / "stopped")


def test_a_run_stops_and_keeps_its_best_epoch(stopped: RunRecord) -> None:
    curve = validation_nll(stopped)
    best = curve.index(min(curve))
    assert len(curve) == best + 1 + 2 < EPOCHS
    assert stopped.read_evaluation().val.chosen.metrics["nll"] == pytest.approx(curve[best])


def test_the_epochs_that_were_done_are_recorded(stopped: RunRecord) -> None:
    status = stopped.read_status()
    assert status is not None
    assert status.epochs == len(validation_nll(stopped)) == num_epochs(read_run(stopped))


def test_without_patience_the_last_epoch_counts(tmp_path: Path) -> None:
    record = train(config_of(patience=0), tmp_path / "run")
    curve = validation_nll(record)
    assert len(curve) == EPOCHS
    assert record.read_evaluation().val.chosen.metrics["nll"] == pytest.approx(curve[-1])
    status = record.read_status()
    assert status is not None
    assert status.epochs is None


@pytest.mark.parametrize("keep_by", ["nll", "nll_scaled"])
@pytest.mark.parametrize("method", ["standard", "sae", "mc_dropout", "batch_ensemble"])
def test_the_best_epoch_is_kept_without_stopping(method: str, keep_by: str, tmp_path: Path) -> None:
    judged: list[float] = []

    def noted(*args: Any) -> list[float]:
        losses = stream_losses(*args)
        judged.extend(losses)
        return losses

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sae.training.trainer.stream_losses", noted)
        record = train(config_of(method, patience=0, keep="best", keep_by=keep_by), tmp_path / "run")
    assert len(judged) == EPOCHS == len(validation_nll(record))
    assert min(judged) < judged[-1]  # it overfits, so the last epoch is not the best
    assert record.read_evaluation().val.chosen.metrics[keep_by] == pytest.approx(min(judged), rel=1e-5)


def test_each_member_is_judged_by_its_own_scaled_loss(tmp_path: Path) -> None:
    config = config_of("ensemble", patience=0, keep="best", keep_by="nll_scaled", members=2)
    alone = config_of(patience=0, keep="best", keep_by="nll_scaled")
    ensemble = train(config, tmp_path / "ensemble")
    derived = derive(alone, tmp_path / "derived", ensemble.path)
    assert derived.read_evaluation() == train(alone, tmp_path / "alone").read_evaluation()


def test_a_scaled_loss_without_a_best_epoch_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"must keep the best epoch for keep_by=nll_scaled.*set train\.keep=best"):
        config_of(patience=0, keep_by="nll_scaled")


@pytest.mark.parametrize(
    ("method", "how"),
    [("standard", {}), ("sae", {}), ("ensemble", {}), ("sae", {"patience": 3, "keep_by": "nll_scaled"})],
)
def test_a_run_killed_after_any_epoch_continues_to_the_same_bytes(
    method: str, how: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(method, **how)
    whole = train(config, tmp_path / "whole")
    for epoch in range(1, len(validation_nll(whole))):
        interrupt(config, tmp_path / "cut", monkeypatch, at=epoch)
    assert results(train(config, tmp_path / "cut")) == results(whole)


def test_a_run_killed_before_its_results_are_written_gets_the_same_ones(
    stopped: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise StopError

    with monkeypatch.context() as patch:
        patch.setattr("sae.training.run._record_results", killed)
        with pytest.raises(StopError):
            train(config_of(), tmp_path / "run")
    assert results(train(config_of(), tmp_path / "run")) == results(stopped)


def test_a_member_is_the_same_in_ensembles_of_any_size(stopped: RunRecord, tmp_path: Path) -> None:
    five = train(config_of("ensemble", members=5), tmp_path / "five")
    assert len(validation_nll(five)) > len(validation_nll(stopped))  # others went on for longer
    alone = derive(config_of(), tmp_path / "derived", five.path)
    assert alone.read_evaluation() == stopped.read_evaluation()


@pytest.mark.slow
def test_members_trained_in_two_processes_are_the_same_to_the_byte(tmp_path: Path) -> None:
    config = config_of("ensemble", members=3)
    alone = train(config, tmp_path / "alone")
    assert results(train(config, tmp_path / "together", processes=2)) == results(alone)


def test_sae_is_judged_at_the_temperature_it_is_shipped_with(tmp_path: Path) -> None:
    kept: list[float] = []
    update = EarlyStopping.update

    def noted(self: EarlyStopping, method: Any, epoch: int, losses: list[float]) -> None:
        update(self, method, epoch, losses)
        kept[:] = [best.nll for best in self.best]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EarlyStopping, "update", noted)
        record = train(config_of("sae"), tmp_path / "run")
    assert record.read_evaluation().val.chosen.metrics["nll"] == pytest.approx(kept[0])


def test_a_paused_run_is_judged_by_its_best_epoch(tmp_path: Path) -> None:
    config = config_of(patience=EPOCHS)
    record = train(config, tmp_path / "run", until=8)
    curve = validation_nll(record)
    assert min(curve) < curve[-1]
    assert record.read_interim().val.chosen.metrics["nll"] == pytest.approx(min(curve))
    assert results(train(config, tmp_path / "run")) == results(train(config, tmp_path / "whole"))


def test_a_run_that_stops_before_it_would_pause_is_finished(stopped: RunRecord, tmp_path: Path) -> None:
    record = train(config_of(), tmp_path / "run", until=EPOCHS - 1)
    assert record.has_finished()
    assert results(record) == results(stopped)


def test_a_stream_that_has_stopped_stays_as_it_is() -> None:
    config = config_of("ensemble", members=2)
    method = build_method(config.method, config.backbone, load(config.data).spec, 0)
    stopping = EarlyStopping(patience=1)
    for epoch, losses in enumerate([(1.0, 5.0), (2.0, 4.0), (0.5, 3.0)], start=1):
        stopping.update(method, epoch, losses)
        assert not stopping.has_stopped(epoch)
    assert [(best.epoch, best.nll) for best in stopping.best] == [(1, 1.0), (3, 3.0)]
    stopping.update(method, 4, (0.1, 3.0))
    assert stopping.has_stopped(4)


def test_what_is_kept_does_not_change_with_the_weights() -> None:
    config = config_of()
    method = build_method(config.method, config.backbone, load(config.data).spec, 0)
    stopping, before = EarlyStopping(patience=1), method.state_dict()
    before = {name: tensor.clone() for name, tensor in before.items()}
    stopping.update(method, 1, [1.0])
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.add_(1.0)
    stopping.restore(method)
    assert all(torch.equal(tensor, before[name]) for name, tensor in method.state_dict().items())
