"""Callbacks: what they are told and when, and that they change nothing but are heard when they fail."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sae
from sae.config.run import RunConfig
from sae.core.errors import ConfigError, DivergedError
from sae.records.run import RunRecord
from sae.training.run import train
from sae.training.tracking import CALLBACK_METHODS, Row, State
from tests.builders import run_config

pytestmark = pytest.mark.long

CONFIG = run_config(method={"name": "sae", "inputs": 2, "exits": 2}, train={"epochs": 3})


class Notes(sae.RunCallback):
    """A callback that notes what it is told, and fails on demand."""

    def __init__(self, failing: str = "") -> None:
        self.failing, self.told = failing, list[tuple[str, Any]]()

    def note(self, method: str, what: object) -> None:
        self.told.append((method, what))
        if method == self.failing:
            raise OSError("no connection")

    def on_run_start(self, record: RunRecord, history: Sequence[Row]) -> None:
        assert record.read_config() == CONFIG
        self.note("on_run_start", [row["epoch"] for row in history])

    def on_epoch(self, record: RunRecord, row: Row) -> None:
        assert record.read_history()[-1] == row, "an epoch is kept before callbacks are told of it"
        self.note("on_epoch", row["epoch"])

    def on_run_end(self, record: RunRecord, state: State) -> None:
        self.note("on_run_end", state)


class Meddler(sae.RunCallback):
    """A callback that changes what it is given, and draws random numbers."""

    def on_run_start(self, record: RunRecord, history: Sequence[Row]) -> None:
        torch.manual_seed(99)

    def on_epoch(self, record: RunRecord, row: Row) -> None:
        assert isinstance(row, dict)
        row.clear()
        torch.rand(7), np.random.default_rng().random(7)


def files(record: RunRecord) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in record.path.iterdir() if path.name != record.STATUS}


def test_a_callback_is_told_of_the_start_of_every_epoch_and_of_the_end(tmp_path: Path) -> None:
    notes = Notes()
    train(CONFIG, tmp_path / "x", until=2, callbacks=[notes])
    assert notes.told == [("on_run_start", []), ("on_epoch", 1), ("on_epoch", 2), ("on_run_end", "paused")]
    train(CONFIG, tmp_path / "x", callbacks=[resumed := Notes()])
    assert resumed.told == [("on_run_start", [1, 2]), ("on_epoch", 3), ("on_run_end", "finished")]
    train(CONFIG, tmp_path / "x", callbacks=[again := Notes()])
    assert again.told == [("on_run_start", [1, 2, 3]), ("on_run_end", "finished")]


def test_results_are_there_when_a_finished_run_ends(tmp_path: Path) -> None:
    class Results(sae.RunCallback):
        def on_run_end(self, record: RunRecord, state: State) -> None:
            self.nll = record.read_evaluation().test.chosen.metrics["nll"]

    results = Results()
    record = train(CONFIG, tmp_path / "x", callbacks=[results])
    assert results.nll == record.read_evaluation().test.chosen.metrics["nll"]


def test_callbacks_change_no_byte_of_the_run(tmp_path: Path) -> None:
    plain, followed = (
        train(CONFIG, tmp_path / name, callbacks=given) for name, given in (("plain", []), ("followed", [Meddler()]))
    )
    assert files(plain) == files(followed)


@pytest.mark.parametrize("method", CALLBACK_METHODS)
def test_an_error_in_a_callback_is_raised_and_says_where(method: str, tmp_path: Path) -> None:
    others = Notes(), Notes()
    with pytest.raises(OSError, match="no connection") as caught:
        train(CONFIG, tmp_path / "x", callbacks=[others[0], Notes(method), others[1]])
    assert f"in Notes.{method}" in caught.value.__notes__[0]
    ended = "finished" if method == "on_run_end" else "interrupted"
    assert others[0].told[-1] == ("on_run_end", ended)
    assert others[1].told == [] if method == "on_run_start" else others[1].told[-1] == ("on_run_end", ended)


def test_a_run_whose_callback_failed_continues_to_the_same_numbers(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no connection"):
        train(CONFIG, tmp_path / "x", callbacks=[Notes("on_epoch")])
    continued = train(CONFIG, tmp_path / "x", callbacks=[notes := Notes()])
    assert notes.told[0] == ("on_run_start", [1])
    assert files(continued) == files(train(CONFIG, tmp_path / "y"))


def test_a_second_error_at_the_end_is_told_with_the_first(tmp_path: Path) -> None:
    config: RunConfig = CONFIG.model_copy(update={"train": CONFIG.train.model_copy(update={"lr": 1e30})})

    class Broken(sae.RunCallback):
        def on_run_end(self, record: RunRecord, state: State) -> None:
            raise ValueError(f"cannot tell that it {state}")

    with pytest.raises(DivergedError) as caught:
        train(config, tmp_path / "x", callbacks=[Broken()])
    assert caught.value.__notes__ == [
        "then ValueError: cannot tell that it failed; in Broken.on_run_end; the same call continues the run"
    ]


@pytest.mark.parametrize("wrong", [Notes, print, object()])
def test_what_is_no_callback_is_refused_before_any_work(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="callbacks must be objects with the methods on_run_start, on_epoch"):
        train(CONFIG, tmp_path / "x", callbacks=[wrong])
    assert not (tmp_path / "x").exists()
