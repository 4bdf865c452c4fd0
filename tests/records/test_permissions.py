"""What may not be read is not missing: nobody is told to train it again."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from sae.records.predictions import Predictions
from sae.records.run import RunRecord, read_run
from sae.records.study import StudyRecord
from tests.builders import run_config
from tests.studies import StudyBuilder, sae
from tests.unprivileged import as_nobody, shared_folder


@pytest.fixture
def shared() -> Iterator[Path]:
    with shared_folder() as folder:
        yield folder


READERS: dict[str, Callable[[RunRecord], object]] = {
    RunRecord.STATUS: lambda run: run.read_status(),
    RunRecord.METRICS: lambda run: run.read_evaluation(),
    RunRecord.HISTORY: lambda run: run.read_history(),
    RunRecord.MODEL: lambda run: run.read_arrays(run.MODEL),
    RunRecord.PREDICTIONS: lambda run: Predictions.read(run),
    RunRecord.CONFIG: lambda run: run.read_config(),
}


@pytest.mark.parametrize("name", READERS)
def test_a_file_without_the_right_to_read_it_is_not_missing(name: str, shared: Path) -> None:
    record = RunRecord.create(shared / "run", run_config())
    record.write_arrays(record.MODEL, {"x": np.zeros(1, np.float32)})
    if not record.has(name):
        record.write_text(name, "{}")
    (record.path / name).chmod(0)
    found = as_nobody(lambda: str(READERS[name](RunRecord(record.path))))
    assert "Permission denied" in found
    assert "missing" not in found
    assert "--force" not in found
    assert found.startswith("RecordError: ")


def test_a_run_folder_that_may_not_be_entered_is_named(shared: Path) -> None:
    record = RunRecord.create(shared / "run", run_config())
    record.end("failed", error="x")
    record.path.chmod(0)
    found = as_nobody(lambda: str(RunRecord.open(record.path)))
    record.path.chmod(0o755)
    assert found.startswith("RecordError: ")
    assert "Permission denied" in found


def test_a_trial_that_may_not_be_entered_is_one_damaged_trial(shared: Path) -> None:
    study = StudyBuilder(shared / "study")
    study.end(sae(1, 1), "failed", error="x")
    locked = study.end(sae(2, 2), "failed", error="x")
    locked.path.chmod(0)

    def states() -> str:
        return " ".join(run.state for run in StudyRecord.open(shared / "study").read_runs())

    found = as_nobody(states)
    reason = as_nobody(lambda: str(read_run(RunRecord(locked.path)).damage))
    locked.path.chmod(0o755)
    assert found == "failed damaged"
    assert "Permission denied" in reason
