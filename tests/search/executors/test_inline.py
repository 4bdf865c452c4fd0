import warnings
from pathlib import Path

from sae.search.executors.inline import InlineExecutor
from sae.search.job import Job, Outcome
from tests.builders import run_config


def test_a_job_runs_in_this_process_and_leaves_the_warnings_as_they_are(tmp_path: Path) -> None:
    executor, before = InlineExecutor(), list(warnings.filters)
    job = Job("sae/0", run_config(train={"epochs": 1}), tmp_path / "run")
    executor.submit(job)
    assert executor.running == [job]
    assert executor.wait(0.1) == [(job, Outcome("finished"))]
    assert executor.running == []
    assert job.run.has_finished()
    assert warnings.filters == before


def test_a_job_that_fails_does_not_end_the_process(tmp_path: Path) -> None:
    executor = InlineExecutor()
    executor.submit(Job("sae/0", run_config(train={"epochs": 1, "device": "nowhere"}), tmp_path / "run"))
    [(_, outcome)] = executor.wait(0.1)
    assert outcome.state == "failed"
    assert "train.device" in outcome.error
