import os
import signal
from pathlib import Path

import pytest

from sae.config.run import RunConfig
from sae.core.errors import SaeError
from sae.data.catalogue import load
from sae.methods import build_method
from sae.records.run import RunRecord
from sae.training.parallel import ParallelTrainer, training
from sae.training.run import train
from sae.training.trainer import Trainer
from tests.builders import run_config
from tests.training.interruptions import results


def config_of(members: int = 3, **settings: object) -> RunConfig:
    return run_config(method={"name": "ensemble", "members": members}, train={"epochs": 3, **settings})


@pytest.mark.slow
@pytest.mark.parametrize("backbone", [{"name": "fc", "depth": 2}, {"name": "vgg", "depth": 2}])
def test_members_trained_in_two_processes_are_the_same_to_the_byte(tmp_path: Path, backbone: dict[str, object]) -> None:
    config = run_config(method={"name": "ensemble", "members": 3}, train={"epochs": 2}, backbone=backbone)
    alone = train(config, tmp_path / "alone")
    together = train(config, tmp_path / "together", processes=2)
    assert results(together) == results(alone)


@pytest.mark.slow
def test_a_killed_worker_ends_the_run_which_continues_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(config_of(), tmp_path / "whole")
    rows = ParallelTrainer.train_rows

    def with_a_kill(self: ParallelTrainer, epoch: int, on_step: object = None) -> object:
        if epoch == 1:
            pid = self.workers[1][0].pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        return rows(self, epoch)

    with monkeypatch.context() as patch:
        patch.setattr(ParallelTrainer, "train_rows", with_a_kill)
        with pytest.raises(SaeError, match="ended with code -9: run the same command again to continue"):
            train(config_of(), tmp_path / "cut", processes=2)
    assert RunRecord(tmp_path / "cut").read_status() is None
    assert results(train(config_of(), tmp_path / "cut", processes=2)) == results(whole)


@pytest.mark.slow
def test_workers_end_with_the_training() -> None:
    config = config_of()
    dataset = load(config.data)
    method = build_method(config.method, config.backbone, dataset.spec)
    with training(method, dataset, config, 2) as trainer:
        assert isinstance(trainer, ParallelTrainer)
        trainer.train_epoch(0)
        processes = [process for process, _ in trainer.workers]
        assert all(process.is_alive() for process in processes)
    assert not any(process.is_alive() for process in processes)


@pytest.mark.parametrize(
    ("config", "processes"),
    [(config_of(1), 2), (config_of(3), 1), (config_of(3, precision="float16"), 2), (run_config(), 4)],
)
def test_one_process_trains_what_cannot_be_split(config: RunConfig, processes: int) -> None:
    dataset = load(config.data)
    method = build_method(config.method, config.backbone, dataset.spec)
    with training(method, dataset, config, processes) as trainer:
        assert type(trainer) is Trainer
