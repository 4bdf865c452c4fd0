"""Weights and checkpoints are those of their run, or they are refused."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sae.config.run import RunConfig
from sae.core.errors import RecordError, RecordWarning
from sae.records.run import RunRecord
from sae.training.run import restore, train
from tests.builders import run_config


def settings(**layers: Any) -> RunConfig:
    return run_config(method={"name": "sae", "inputs": 2, "exits": 2}, train={"epochs": 2}, **layers)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[int, RunRecord]:
    """Two runs that differ in their seed only."""
    folder = tmp_path_factory.mktemp("runs")
    return {seed: train(settings(seed=seed), folder / f"seed-{seed}") for seed in (0, 1)}


@pytest.fixture
def copied(finished: dict[int, RunRecord], tmp_path: Path) -> RunRecord:
    shutil.copytree(finished[0].path, tmp_path / "run")
    return RunRecord(tmp_path / "run")


@pytest.mark.parametrize("name", [RunRecord.MODEL, RunRecord.CONFIG])
def test_files_of_a_run_with_another_seed_are_refused(
    finished: dict[int, RunRecord], copied: RunRecord, name: str
) -> None:
    restore(copied)
    shutil.copy(finished[1].path / name, copied.path / name)
    with pytest.raises(RecordError, match=f"{name} is not the file that this run ended with.*bring the run's own"):
        restore(copied)


def test_weights_of_another_type_are_refused(copied: RunRecord) -> None:
    arrays, _ = copied.read_arrays(copied.MODEL)
    copied.write_arrays(copied.MODEL, {name: array.astype(np.float64) for name, array in arrays.items()})
    with pytest.raises(RecordError, match="must be float32, got float64"):
        restore(copied)


def test_a_run_without_hashes_is_read_with_one_notice(copied: RunRecord) -> None:
    status = json.loads((copied.path / copied.STATUS).read_text())
    del status["config_sha256"], status["weights_sha256"]
    copied.write_json(copied.STATUS, status)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        restore(copied)
    assert [(one.category, "before runs recorded hashes" in str(one.message)) for one in said] == [
        (RecordWarning, True)
    ]


def test_a_checkpoint_of_another_seed_is_refused(tmp_path: Path) -> None:
    records = [train(settings(seed=seed), tmp_path / f"{seed}", until=1) for seed in (0, 1)]
    shutil.copy(records[1].path / RunRecord.CHECKPOINT, records[0].path / RunRecord.CHECKPOINT)
    with pytest.raises(
        RecordError, match=r"checkpoint\.safetensors belongs to a run with other settings, another seed"
    ):
        train(settings(seed=0), records[0].path)


def test_a_checkpoint_without_its_run_is_continued_with_one_notice(tmp_path: Path) -> None:
    record = train(settings(), tmp_path / "run", until=1)
    arrays, metadata = record.read_arrays(record.CHECKPOINT)
    header = json.loads(metadata["progress"])
    del header["run"]
    record.write_arrays(record.CHECKPOINT, arrays, {"progress": json.dumps(header)})
    with pytest.warns(RecordWarning, match="before checkpoints recorded their run"):
        assert train(settings(), record.path).has_finished()


@pytest.mark.parametrize("header", ["{", "[" * 10_000, '{"epoch": NaN}', '{"epoch": 1' + "0" * 5_000 + "}"])
def test_a_damaged_header_is_refused(tmp_path: Path, header: str) -> None:
    record = train(settings(), tmp_path / "run", until=1)
    arrays, _ = record.read_arrays(record.CHECKPOINT)
    record.write_arrays(record.CHECKPOINT, arrays, {"progress": header})
    with pytest.raises(RecordError, match=r"checkpoint\.safetensors is damaged"):
        train(settings(), record.path)


@pytest.mark.parametrize("prefix", ["method.", "optimizer."])
def test_a_checkpoint_of_nan_is_refused_and_never_becomes_weights(tmp_path: Path, prefix: str) -> None:
    record = train(settings(), tmp_path / "run", until=1)
    arrays, metadata = record.read_arrays(record.CHECKPOINT)
    poisoned = {
        name: np.full_like(array, np.nan) if name.startswith(prefix) and array.dtype == np.float32 else array
        for name, array in arrays.items()
    }
    record.write_arrays(record.CHECKPOINT, poisoned, metadata)
    with pytest.raises(RecordError, match=r"weights must be finite, but .* is not in .*checkpoint\.safetensors"):
        train(settings(), record.path)
    assert not record.has(record.MODEL)


def test_weights_of_nan_are_refused(copied: RunRecord) -> None:
    arrays, _ = copied.read_arrays(copied.MODEL)
    name = next(name for name, array in arrays.items() if array.dtype == np.float32)
    copied.write_arrays(copied.MODEL, {**arrays, name: np.full_like(arrays[name], np.nan)})
    with pytest.raises(RecordError, match=r"weights must be finite, but .* is not in .*model\.safetensors"):
        restore(copied)
