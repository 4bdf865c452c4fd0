from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path

import pytest

from sae.config.run import RunConfig
from sae.config.settings import Layer
from sae.core.errors import DivergedError, RecordError
from sae.data.catalogue import resolve
from sae.data.defaults import MOST_TIMES, at_length, is_longer
from sae.records.folder import LENGTHS
from sae.records.run import RunRecord
from sae.training import length
from sae.training.length import Training, is_still_improving, may_train_longer, train_enough, try_lengths
from sae.training.run import train
from tests.builders import run_config
from tests.training.interruptions import StopError, results

EPOCHS = 3


def config_of(lr: float = 1e-3, patience: int = 1) -> RunConfig:
    """A network that learns slowly enough to need more than the first epochs."""
    return run_config(
        data={"name": "diabetes"},
        method={"name": "standard"},
        train={"epochs": EPOCHS, "lr": lr, "patience": patience},
    )


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    return train_enough(Training(config_of()), tmp_path_factory.mktemp("runs") / "longer")


def test_a_training_that_still_improves_is_repeated_with_twice_the_epochs(longer: RunRecord) -> None:
    tried = longer.read_lengths()
    assert tried is not None
    lengths = list(tried.nll)
    assert lengths[:2] == [EPOCHS, 2 * EPOCHS]
    assert max(lengths) <= MOST_TIMES * EPOCHS
    assert longer.read_config().train.epochs == min(tried.nll, key=lambda epochs: tried.nll[epochs]) > EPOCHS


def test_the_result_is_that_of_the_length_itself(longer: RunRecord, tmp_path: Path) -> None:
    assert results(train(longer.read_config(), tmp_path / "direct")) == results(longer)


def test_only_the_result_is_left(longer: RunRecord) -> None:
    assert not (longer.path / LENGTHS).exists()


def test_the_same_command_finds_the_finished_run(longer: RunRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(length, "try_lengths", None)
    assert results(train_enough(Training(config_of()), longer.path)) == results(longer)
    with pytest.raises(RecordError, match=r"train\.lr 0\.001 → 0\.01"):
        train_enough(Training(config_of(lr=1e-2)), longer.path)


@pytest.mark.parametrize("file", [RunRecord.HISTORY, RunRecord.CONFIG, RunRecord.STATUS])
def test_a_killed_command_continues_to_the_same_bytes(
    longer: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """In the middle of a longer training, and while the best one is copied."""
    write, write_rows, times = RunRecord.write_text, RunRecord.write_rows, count()

    def killed(record: RunRecord, name: str, text: str) -> None:
        if name == file and record.path == tmp_path / "run":
            raise StopError
        write(record, name, text)

    def killed_rows(record: RunRecord, name: str, rows: Sequence[Mapping[str, object]]) -> None:
        if next(times) == EPOCHS + 1:
            raise StopError
        write_rows(record, name, rows)

    with monkeypatch.context() as patch:
        if file == RunRecord.HISTORY:
            patch.setattr(RunRecord, "write_rows", killed_rows)
        else:
            patch.setattr(RunRecord, "write_text", killed)
        with pytest.raises(StopError):
            train_enough(Training(config_of()), tmp_path / "run")
    assert results(train_enough(Training(config_of()), tmp_path / "run")) == results(longer)
    assert not (tmp_path / "run" / LENGTHS).exists()


def test_still_improving_is_said_only_where_the_ceiling_ended_it(
    longer: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = longer.read_lengths()
    assert tried is not None
    if max(tried.nll) > longer.read_config().train.epochs:
        assert is_still_improving(longer) is None
    monkeypatch.setattr(length, "MOST_TIMES", 2)
    record = train_enough(Training(config_of()), tmp_path / "run")
    assert record.read_config().train.epochs == 2 * EPOCHS
    assert is_still_improving(record) == 2 * EPOCHS


def test_a_longer_training_that_diverges_leaves_the_shorter_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Training.run

    def diverging(self: Training, config: RunConfig, out: Path) -> RunRecord:
        if config.train.epochs > EPOCHS:
            raise DivergedError("the loss must stay finite")
        return whole(self, config, out)

    monkeypatch.setattr(Training, "run", diverging)
    assert list(try_lengths(Training(config_of()), tmp_path)) == [EPOCHS]


def test_a_length_that_is_given_stays(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{index},{index % 2}\n" for index in range(60)))
    data = {"data": {"name": str(tmp_path / "t.csv"), "task": "classification", "target": "y"}}
    assert may_train_longer(resolve(data), data)
    for train_section in ({"epochs": 5}, {"patience": 0}):
        layers: list[Layer] = [data, {"train": train_section}]
        assert not may_train_longer(resolve(*layers), *layers)
    digits = {"data": {"name": "digits"}}
    assert not may_train_longer(resolve(digits), digits)


def test_lengths_of_one_training_are_recognised() -> None:
    config = config_of(patience=2)
    assert all(is_longer(at_length(config, times * EPOCHS), config) for times in (2, 4, 8))
    assert is_longer(config, config)
    assert not is_longer(at_length(config, 3 * EPOCHS), config)
    assert not is_longer(at_length(config_of(lr=1.0), 2 * EPOCHS), config)
