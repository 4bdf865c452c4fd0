import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sae.backbones.fc import FcBlock
from sae.config.methods import METHODS
from sae.core.errors import ConfigError, CostError, DataWarning, DivergedError, RecordError
from sae.core.task import Classification
from sae.data.batches import Preparation, evaluation_batches
from sae.data.catalogue import load
from sae.methods import build_method
from sae.methods.sae import Sae
from sae.records.evaluation import SPLITS, Reading
from sae.records.folder import LOCK
from sae.records.run import RunRecord
from sae.training.checkpoint import load_checkpoint, save_checkpoint
from sae.training.evaluator import describe_exits, measure_costs, member_outputs
from sae.training.run import check_run, restore, train
from sae.training.run_evaluation import evaluate
from sae.training.trainer import Progress, Trainer
from tests.builders import SMALL_METHODS, SPEC, blobs, run_config, small_method, small_sae
from tests.training.interruptions import RESULTS, StopError, interrupt, results

CONFIG = run_config(method={"name": "sae", "inputs": 2, "exits": 2}, train={"epochs": 3})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    return train(CONFIG, tmp_path_factory.mktemp("runs") / "whole")


def content(record: RunRecord, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((record.path / name).read_text())
    return found


def test_a_run_leaves_the_folder_of_the_contract(finished: RunRecord) -> None:
    names = {path.name for path in finished.path.iterdir()}
    assert names - {LOCK} == {RunRecord.CONFIG, RunRecord.STATUS, *RESULTS}
    assert finished.has_finished()


def test_metrics_cover_every_number_of_exits(finished: RunRecord) -> None:
    metrics = content(finished, finished.METRICS)
    assert set(metrics) == {"val", "test"}
    for evaluation in metrics.values():
        assert [item["exits"] for item in evaluation["by_exits"]] == [1, 2]
        assert evaluation["metrics"] == evaluation["by_exits"][1]["metrics"]
        assert set(evaluation["by_exits"][0]) == {
            *("exits", "active", "params", "flops", "shipped_params", "shipped_flops", "metrics", "members")
        }


def test_history_holds_losses_validation_and_theta(finished: RunRecord) -> None:
    header, *rows = (finished.path / finished.HISTORY).read_text().splitlines()
    assert {"epoch", "loss", "data_fit", "kl", "val_nll", "theta_0_0", "theta_1_1"} <= set(header.split(","))
    assert len(rows) == 3


def test_reliability_bins_hold_every_sample(finished: RunRecord) -> None:
    bins = content(finished, finished.CURVES)["test"]["reliability"]
    assert sum(bins["count"]) == 360


def test_curves_are_kept_at_every_number_of_exits(finished: RunRecord) -> None:
    curves, evaluation = finished.read_curves("test"), finished.read_evaluation().test
    assert [item.eval_exits for item in curves.readings] == [item.eval_exits for item in evaluation.readings]
    for item, measured in zip(curves.readings, evaluation.readings, strict=True):
        assert item.risk_coverage.risk[-1] == pytest.approx(measured.metrics["error"])
    stored = content(finished, finished.CURVES)["test"]
    trained = next(item for item in stored["by_exits"] if item["exits"] == evaluation.exits)
    assert trained["reliability"] == stored["reliability"]


def test_the_same_seed_gives_the_same_bytes(finished: RunRecord, tmp_path: Path) -> None:
    assert results(train(CONFIG, tmp_path / "again")) == results(finished)


def test_a_finished_run_is_returned_and_not_repeated(finished: RunRecord) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.path.iterdir() if path.name != RunRecord.CONFIG}
    train(CONFIG, finished.path)
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize("last_epoch", [1, 2])
def test_an_interrupted_run_continues_to_the_same_bytes(
    finished: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last_epoch: int
) -> None:
    interrupt(CONFIG, tmp_path / "run", monkeypatch, at=last_epoch)
    assert RunRecord(tmp_path / "run").read_status() is None
    assert results(train(CONFIG, tmp_path / "run")) == results(finished)


@pytest.mark.parametrize("patience", [0, 3])
def test_a_paused_run_that_is_evaluated_after_a_restart_gives_the_same_numbers(tmp_path: Path, patience: int) -> None:
    config = run_config(
        method={"name": "sae", "inputs": 2, "exits": 2, "temperature": {"start": 1.0, "end": 0.01}},
        train={"epochs": 4, "lr": 3e-3, "patience": patience},
    )
    record = train(config, tmp_path / "run", until=2)
    first = record.read_interim()
    (record.path / record.INTERIM).unlink()  # as if killed between the last epoch and the evaluation
    again = train(config, tmp_path / "run", until=2).read_interim()
    assert again.val == first.val
    if not patience:
        assert again.val.chosen.metrics["nll"] == record.read_history()[-1]["val_nll"]


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_checkpoint_restores_the_progress_of_its_last_step(tmp_path: Path, epochs: int) -> None:
    config = run_config(train={"epochs": 3, "lr": 1e-3})
    dataset = load(config.data, config.seed)

    def fresh() -> Trainer:
        return Trainer(build_method(config.method, config.backbone, dataset.spec, config.seed), dataset, config)

    trained = fresh()
    for epoch in range(epochs):
        trained.train_epoch(epoch)
    record = RunRecord.create(tmp_path / "run", config)
    save_checkpoint(record, trained, Progress(epoch=epochs))
    restored = fresh()
    load_checkpoint(record, restored)
    assert restored.method.progress == trained.method.progress
    assert torch.equal(restored.method.member_weights(), trained.method.member_weights())


def test_a_run_that_measured_less_when_it_began_keeps_its_columns(tmp_path: Path) -> None:
    config = run_config(data={"name": "diabetes"}, train={"epochs": 2})
    record = train(config, tmp_path / "run", until=1)
    method = build_method(config.method, config.backbone, load(config.data, config.seed).spec, config.seed)
    trainer = Trainer(method, load(config.data, config.seed), config)
    progress = load_checkpoint(record, trainer)
    del progress.history[0]["val_rmse"]  # as older versions wrote it
    save_checkpoint(record, trainer, progress)
    rows = train(config, tmp_path / "run").read_rows(RunRecord.HISTORY)
    assert len(rows) == 2
    assert "val_mse" in rows[1]
    assert "val_rmse" not in rows[1]


def test_evaluating_again_from_the_weights_gives_the_recorded_numbers(finished: RunRecord) -> None:
    evaluation = evaluate(finished.path, "val", finished.read_evaluation().exits)
    assert evaluation.evaluation == finished.read_evaluation().val
    printed, recorded = evaluation.to_json(), content(finished, finished.METRICS)["val"]
    assert {key: printed[key] for key in recorded} == recorded
    assert (printed["run"], printed["split"], printed["shift"]) == (str(finished.path), "val", None)


def test_by_default_it_is_read_where_validation_is_best(finished: RunRecord) -> None:
    val = finished.read_evaluation().val
    assert evaluate(finished.path).exits == min(val.readings, key=lambda reading: reading.metrics["nll"]).eval_exits


def test_evaluation_at_other_exits_reports_those(finished: RunRecord) -> None:
    evaluation = evaluate(finished.path, "test", eval_exits=1)
    assert evaluation.exits == 1
    assert evaluation.metrics == evaluation.evaluation.readings[0].metrics


def test_calibrated_numbers_stand_beside_the_raw_ones(finished: RunRecord) -> None:
    raw, both = evaluate(finished.path, "val"), evaluate(finished.path, "val", eval_exits=1, calibrate=True)
    assert "calibrated" not in raw.to_json()
    for before, after in zip(raw.evaluation.readings, both.evaluation.readings, strict=True):
        assert after.metrics == before.metrics
        assert after.calibrated is not None
        assert after.calibrated["nll"] <= after.metrics["nll"] + 1e-6  # val is what it is fitted on
        assert after.calibrated["accuracy"] == after.metrics["accuracy"]
    printed, first = both.to_json(), both.evaluation.readings[0]
    assert first.temperature is not None
    assert printed["calibrated"] == first.calibrated
    assert printed["temperature"] == first.temperature > 0


def test_a_temperature_is_fitted_on_val_whatever_is_measured(finished: RunRecord) -> None:
    val, test = (evaluate(finished.path, split, calibrate=True).evaluation.chosen for split in SPLITS)
    assert val.temperature == test.temperature is not None
    assert val.calibrated != test.calibrated


@pytest.mark.parametrize("method", ["mc_dropout", "batch_ensemble"])
def test_a_restored_run_predicts_what_was_recorded(method: str, tmp_path: Path) -> None:
    record = train(run_config(method={"name": method}, train={"epochs": 1}, seed=3), tmp_path / "run")
    assert evaluate(record.path).metrics == record.read_evaluation().test.metrics


def test_more_exits_than_stages_cannot_be_evaluated(finished: RunRecord) -> None:
    with pytest.raises(ConfigError, match=r"the number of exits must be in \[1, 2\] for this network, got 3"):
        evaluate(finished.path, eval_exits=3)


def test_a_truncated_weights_file_is_refused(finished: RunRecord, tmp_path: Path) -> None:
    copy = _copy(finished, tmp_path)
    weights = copy.path / copy.MODEL
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(RecordError, match="damaged or cut short"):
        evaluate(copy.path)


def test_weights_of_another_network_are_refused(finished: RunRecord, tmp_path: Path) -> None:
    copy = _copy(finished, tmp_path)
    arrays, _ = copy.read_arrays(copy.MODEL)
    arrays["network.heads.bias"] = np.zeros((9, 9), np.float32)
    copy.write_arrays(copy.MODEL, arrays)
    with pytest.raises(
        RecordError, match=r"another network: network.heads.bias must have shape \(2, 20\), got \(9, 9\)"
    ):
        evaluate(copy.path)


def test_a_checkpoint_of_another_network_is_refused(finished: RunRecord, tmp_path: Path) -> None:
    method, dataset = restore(finished)
    record = RunRecord.create(tmp_path / "run", CONFIG)
    save_checkpoint(record, Trainer(method, dataset, CONFIG), Progress(epoch=1))
    wider = run_config(method={"name": "sae", "inputs": 3, "exits": 2})
    other = build_method(wider.method, wider.backbone, dataset.spec)
    with pytest.raises(RecordError, match=r"checkpoint.safetensors holds another network"):
        load_checkpoint(record, Trainer(other, dataset, wider))


def test_a_file_that_is_no_checkpoint_is_refused(finished: RunRecord, tmp_path: Path) -> None:
    method, dataset = restore(finished)
    record = RunRecord.create(tmp_path / "run", CONFIG)
    record.write_arrays(record.CHECKPOINT, {"x": np.zeros(1, np.float32)})
    with pytest.raises(RecordError, match="is not a checkpoint of sae"):
        load_checkpoint(record, Trainer(method, dataset, CONFIG))


def test_a_diverged_run_is_recorded_and_stays_failed(tmp_path: Path) -> None:
    config = run_config(train={"epochs": 2, "lr": 1e30, "clip_norm": 1e30})
    for _ in range(2):
        with pytest.raises(DivergedError, match="the loss must stay finite"):
            train(config, tmp_path / "run")
    status = json.loads((tmp_path / "run" / RunRecord.STATUS).read_text())
    assert status["state"] == "failed"
    assert "epoch 1" in status["error"]


def test_a_mistake_in_the_data_leaves_no_folder(tmp_path: Path) -> None:
    config = run_config(backbone={"name": "vit"}, data={"name": "diabetes"})
    with pytest.raises(Exception, match="vit needs images"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def forward_with_an_unpriced_operation(self: FcBlock, x: torch.Tensor) -> torch.Tensor:
    return x + torch.erfinv(self.linear(x).clamp(-0.5, 0.5))


def fail_in_training(self: Trainer, epoch: int, on_step: object = None) -> dict[str, float]:
    raise StopError


def test_an_operation_without_a_cost_rule_is_refused_before_the_first_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FcBlock, "forward", forward_with_an_unpriced_operation)
    monkeypatch.setattr(Trainer, "train_epoch", fail_in_training)
    with pytest.raises(
        CostError, match=r"has no cost rule: give it one with sae\.register_cost\(torch\.ops\.aten\.\w+"
    ):
        train(CONFIG, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_starting_over_with_what_cannot_work_keeps_the_old_run(
    finished: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = _copy(finished, tmp_path)
    before = results(kept)
    monkeypatch.setattr(FcBlock, "forward", forward_with_an_unpriced_operation)
    with pytest.raises(CostError, match="has no cost rule"):
        train(CONFIG, kept.path, force=True)
    assert results(kept) == before


@pytest.mark.parametrize("part", ["backbone", "fold", "metric", "loss"])
def test_whatever_a_run_needs_is_tried_before_the_first_epoch(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {
        "backbone": "sae.backbones.base.Backbone.forward",
        "fold": "sae.ensemble.pruning.folded_stem",
        "metric": "sae.training.evaluator.measure_all",
        "loss": "sae.methods.sae.negative_elbo",
    }

    def broken(*_: object, **__: object) -> None:
        raise ArithmeticError(part)

    monkeypatch.setattr(places[part], broken)
    monkeypatch.setattr(Trainer, "train_epoch", fail_in_training)
    with pytest.raises(ArithmeticError, match=part):
        train(CONFIG, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_missing_device_is_refused_before_data_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("sae.training.run.load_bound")
    with pytest.raises(ConfigError, match=r"train\.device must be a device that torch can use here"):
        train(run_config(train={"device": "abacus"}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_unwritable_folder_is_refused_before_the_first_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(Trainer, "train_epoch", fail_in_training)
    with pytest.raises(RecordError, match="folder"):
        train(CONFIG, tmp_path / "file" / "run")


@pytest.mark.parametrize("name", METHODS.names())
def test_the_check_changes_neither_weights_nor_random_numbers(name: str) -> None:
    trainer = Trainer(small_method(name, "fc"), blobs(Classification(3)), run_config(method=SMALL_METHODS[name]))
    before = {key: value.clone() for key, value in trainer.method.state_dict().items()}
    random_state = torch.get_rng_state()
    check_run(trainer)
    assert all(torch.equal(value, before[key]) for key, value in trainer.method.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random_state)
    assert all(not group.gradient.any() for group in trainer.groups)


def test_the_cost_that_the_check_counts_is_not_counted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = run_config(method={"name": "standard"}, train={"epochs": 1})
    recounted = evaluate(train(config, tmp_path / "counted").path).evaluation.readings

    def count_once(*args: object) -> Reading:
        monkeypatch.setattr("sae.training.evaluator.describe_exits", None)
        return describe_exits(*args)  # type: ignore[arg-type]

    monkeypatch.setattr("sae.training.run.describe_exits", count_once)
    readings = train(config, tmp_path / "once").read_evaluation().test.readings
    assert [reading.costs for reading in readings] == [reading.costs for reading in recounted]


def test_costs_are_counted_again_where_training_chose_other_exits() -> None:
    method = small_sae("fc", num_inputs=2, exits=1)
    known = measure_costs(method, SPEC)
    with torch.no_grad():
        method.exit_distribution.logits.neg_()
    assert measure_costs(method, SPEC, known) == measure_costs(method, SPEC) != known


def test_the_number_of_threads_is_put_back(finished: RunRecord) -> None:
    before = torch.get_num_threads()
    evaluate(finished.path)
    assert torch.get_num_threads() == before


def test_regression_is_recorded_in_the_units_of_the_data(tmp_path: Path) -> None:
    config = run_config(data={"name": "diabetes"}, train={"epochs": 5, "lr": 3e-3})
    metrics = train(config, tmp_path / "run").read_evaluation().test.metrics
    assert {"nll", "mse", "rmse", "mae", "r2", "pinball", "coverage_90", "width_90"} <= set(metrics)
    assert 1_000 < metrics["mse"] < 10_000  # the targets' variance is about 6,000


def _copy(record: RunRecord, folder: Path) -> RunRecord:
    for path in record.path.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return RunRecord(folder)


def test_a_run_of_one_step_is_recorded_at_the_final_temperature(tmp_path: Path) -> None:
    config = run_config(
        method={"name": "sae", "inputs": 1, "exits": 2}, train={"epochs": 1, "batch_size": 5000, "lr": 0.03}
    )
    record = train(config, tmp_path / "run")
    assert evaluate(record.path, eval_exits=2).metrics == record.read_evaluation().test.metrics


def test_evaluation_leaves_batchnorm_out_of_it(finished: RunRecord) -> None:
    method, dataset = restore(finished)
    assert not method.training
    prepare = Preparation(dataset.normalisation, 3, torch.device("cpu"))
    method.train()
    outputs = member_outputs(method, evaluation_batches(dataset.test.inputs[:40], prepare))
    alone = member_outputs(method, evaluation_batches(dataset.test.inputs[:1], prepare))
    torch.testing.assert_close(outputs[:1], alone, rtol=1e-4, atol=1e-5)


def test_weights_that_blow_up_in_the_last_step_are_not_recorded(tmp_path: Path) -> None:
    config = run_config(
        data={"name": "diabetes"}, train={"epochs": 1, "batch_size": 500, "lr": 1e30, "clip_norm": 1e30}
    )
    with pytest.raises(DivergedError, match="predictions must stay finite, but they are not after epoch 1"):
        train(config, tmp_path / "run")
    status = RunRecord(tmp_path / "run").read_status()
    assert status is not None
    assert status.state == "failed"


GOLDEN = Path(__file__).parents[1] / "golden" / "run"


def test_the_names_of_stored_tensors_do_not_follow_those_of_attributes() -> None:
    stored, _ = RunRecord(GOLDEN).read_arrays(RunRecord.MODEL)
    with pytest.warns(DataWarning, match="before runs recorded their data"):
        method, _ = restore(RunRecord(GOLDEN))
    assert isinstance(method, Sae)
    assert set(method.state_dict()) == set(stored)
    assert torch.equal(method.exit_distribution.logits.detach(), torch.from_numpy(stored["exits.logits"]))


def test_a_checkpoint_keeps_the_stored_names_too(tmp_path: Path) -> None:
    record = train(CONFIG, tmp_path / "run", until=1)
    assert "method.exits.logits" in record.read_arrays(record.CHECKPOINT)[0]
