"""Runs that are interrupted on purpose, and their results, which must be the same bytes afterwards."""

from pathlib import Path

import pytest

from sae.config.run import RunConfig
from sae.records.run import RunRecord
from sae.training.run import train
from sae.training.trainer import Trainer

RESULTS = (RunRecord.METRICS, RunRecord.CURVES, RunRecord.HISTORY, RunRecord.MODEL, RunRecord.DATA, RunRecord.NETWORK)


class StopError(Exception):
    """Stands for whatever ends a process."""


def results(record: RunRecord) -> dict[str, bytes]:
    """The content of every file of a finished run that holds no time."""
    return {name: (record.path / name).read_bytes() for name in RESULTS}


def interrupt(config: RunConfig, out: Path, monkeypatch: pytest.MonkeyPatch, at: int = 1) -> None:
    """Train, or continue to train, into a folder until an epoch begins, counted from 0, at which the process ends."""
    whole = Trainer.train_epoch

    def interrupted(self: Trainer, epoch: int, on_step: object = None) -> dict[str, float]:
        if epoch == at:
            raise StopError
        return whole(self, epoch)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_epoch", interrupted)
        with pytest.raises(StopError):
            train(config, out)
