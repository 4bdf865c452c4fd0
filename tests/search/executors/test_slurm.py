"""The SLURM executor against a fake cluster: its commands run tasks as processes, late and in odd orders."""

import json
import sys
from pathlib import Path

import pytest

from sae.core.errors import ConfigError, SaeError
from sae.search.dispatch import Dispatcher
from sae.search.executors.slurm import JOB, SlurmExecutor, work
from sae.search.job import Job, Outcome
from tests.builders import run_config
from tests.end_to_end.killing import wait_until
from tests.search.executors import fake_slurm
from tests.search.studies import search

pytestmark = pytest.mark.long

SHORT = run_config(train={"epochs": 1})
STUB = """
import json, os, sys, time
from pathlib import Path
folder, index = Path(sys.argv[1]), os.environ["SLURM_ARRAY_TASK_ID"]
job = json.loads((folder / f"job-{index}.json").read_text())
print("task", index, "of", job["name"], flush=True)
run = Path(job["folder"])
run.mkdir(parents=True, exist_ok=True)
(run / "begun").write_text(os.environ["SLURM_ARRAY_TASK_ID"])
while (run.parent / f"hold-{run.name}").exists():
    time.sleep(0.05)
temporary = folder / f".outcome-{index}"
temporary.write_text(json.dumps({"state": "finished", "error": ""}))
temporary.rename(folder / f"outcome-{index}.json")
"""
"""A task that trains nothing: it begins, waits while a file holds it, and leaves an outcome."""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cluster"
    monkeypatch.setenv("PATH", str(fake_slurm.install(folder)), prepend=":")
    stub = folder / "stub.py"
    stub.write_text(STUB)
    monkeypatch.setattr(SlurmExecutor, "program", (sys.executable, str(stub)))
    return folder


def executor_of(tmp_path: Path, array_max: int = 4, poll: float = 0.1) -> SlurmExecutor:
    return SlurmExecutor(tmp_path / "study" / "slurm", array_max, poll=poll, patience=1.0)


def job_of(tmp_path: Path, number: int) -> Job:
    return Job(f"sae/{number}", SHORT, tmp_path / "runs" / str(number))


def hold(job: Job) -> Path:
    """Keep a job's task from ending until the file is deleted."""
    job.folder.parent.mkdir(parents=True, exist_ok=True)
    path = job.folder.parent / f"hold-{job.folder.name}"
    path.touch()
    return path


def has_begun(job: Job) -> bool:
    return (job.folder / "begun").exists()


def wait_for(waiting: "SlurmExecutor | Dispatcher", number: int) -> dict[str, Outcome]:
    ended: dict[str, Outcome] = {}

    def enough() -> bool:
        ended.update({job.name: outcome for job, outcome in waiting.wait(0.2)})
        return len(ended) >= number

    wait_until(enough)
    return ended


def test_jobs_that_are_submitted_together_are_tasks_of_one_array(cluster: Path, tmp_path: Path) -> None:
    executor = executor_of(tmp_path)
    jobs = [job_of(tmp_path, number) for number in range(3)]
    for job in jobs:
        executor.submit(job)
    assert executor.running == jobs
    assert wait_for(executor, 3) == {job.name: Outcome("finished") for job in jobs}
    assert executor.running == []
    assert [(job.folder / "begun").read_text() for job in jobs] == ["0", "1", "2"]
    assert sorted(fake_slurm.states(cluster)) == ["1_0", "1_1", "1_2"]
    assert list(executor.folder.iterdir()) == []  # nothing is left of what ended well


def test_sbatch_is_told_what_a_trial_needs(cluster: Path, tmp_path: Path) -> None:
    executor = SlurmExecutor(tmp_path / "s", 4, "long", cpus=2, gpus=1, poll=0.1, patience=1.0)
    executor.submit(job_of(tmp_path, 0))
    wait_for(executor, 1)
    told = (cluster / "sbatch.txt").read_text().splitlines()
    for option in ("--parsable", "--array=0-0", "--partition=long", "--cpus-per-task=2", "--gres=gpu:1"):
        assert option in told


def test_a_task_that_waits_in_the_queue_is_not_lost(cluster: Path, tmp_path: Path) -> None:
    (cluster / "delay").touch()
    executor = executor_of(tmp_path)
    executor.submit(job_of(tmp_path, 0))
    for _ in range(12):  # more than our patience, with squeue failing and forgetting meanwhile
        assert executor.wait(0.2) == []
    (cluster / "delay").unlink()
    assert wait_for(executor, 1) == {"sae/0": Outcome("finished")}


def test_a_killed_task_is_lost_with_the_reason_and_its_job_is_run_again(cluster: Path, tmp_path: Path) -> None:
    dispatcher = Dispatcher(executor_of(tmp_path))
    killed, other = job_of(tmp_path, 0), job_of(tmp_path, 1)
    holding = hold(killed)
    dispatcher.add(killed, other)
    assert wait_for(dispatcher, 1) == {"sae/1": Outcome("finished")}
    wait_until(lambda: has_begun(killed))
    fake_slurm.kill(cluster, "1_0")
    holding.unlink()
    assert wait_for(dispatcher, 1) == {"sae/0": Outcome("finished")}
    assert fake_slurm.states(cluster) == {"1_0": "NODE_FAIL", "1_1": "COMPLETED", "2_0": "COMPLETED"}


def test_the_loss_of_a_task_is_described(cluster: Path, tmp_path: Path) -> None:
    executor, job = executor_of(tmp_path), job_of(tmp_path, 0)
    hold(job)
    executor.submit(job)
    wait_until(lambda: executor.wait(0.1) == [] and has_begun(job))
    fake_slurm.kill(cluster, "1_0")
    [(name, outcome)] = wait_for(executor, 1).items()
    assert (name, outcome.state) == ("sae/0", "lost")
    assert "array task 1_0 ended without a result (NODE_FAIL)" in outcome.error
    log = Path(outcome.error.rpartition(" is in ")[2])
    assert log.read_text().startswith("task 0 of sae/0")


def test_refused_jobs_are_blocked_with_the_reason_of_sbatch(cluster: Path, tmp_path: Path) -> None:
    (cluster / "refuse").touch()
    executor = executor_of(tmp_path)
    executor.submit(job_of(tmp_path, 0))
    [(_, outcome)] = executor.wait(0.1)
    assert outcome.state == "blocked"
    assert "sbatch refused an array of 1 trials: sbatch: error: Batch job submission failed" in outcome.error
    assert executor.running == []


def test_closing_cancels_all_tasks(cluster: Path, tmp_path: Path) -> None:
    executor, job = executor_of(tmp_path), job_of(tmp_path, 0)
    hold(job)
    executor.submit(job)
    executor.wait(0.1)
    executor.close()
    assert fake_slurm.states(cluster) == {"1_0": "CANCELLED"}


def test_tasks_of_a_killed_driver_are_taken_over_and_others_cancelled(cluster: Path, tmp_path: Path) -> None:
    first, (kept, changed) = executor_of(tmp_path), (job_of(tmp_path, 0), job_of(tmp_path, 1))
    holding = hold(kept)
    hold(changed)
    for job in (kept, changed):
        first.submit(job)
    first.wait(0.1)
    wait_until(lambda: has_begun(kept) and has_begun(changed))  # the driver is gone now, without a word
    for _ in range(fake_slurm.LATE + 1):
        fake_slurm.count(cluster, "seen-1_0"), fake_slurm.count(cluster, "seen-1_1")
    second = executor_of(tmp_path)
    second.submit(kept)
    assert second.running == [kept]
    assert second.wait(0.1) == []
    assert fake_slurm.states(cluster) == {"1_0": "RUNNING", "1_1": "CANCELLED"}
    holding.unlink()
    assert wait_for(second, 1) == {"sae/0": Outcome("finished")}


@pytest.mark.parametrize("questions", range(4))  # before one of these, squeue fails
def test_tasks_of_a_driver_that_was_killed_before_it_noted_their_number_are_found_by_name(
    questions: int, cluster: Path, tmp_path: Path
) -> None:
    first, job = executor_of(tmp_path), job_of(tmp_path, 0)
    holding = hold(job)
    first.submit(job)
    first.wait(0.1)
    next(first.folder.glob("*/array")).unlink()
    wait_until(lambda: has_begun(job))
    for _ in range(fake_slurm.LATE + 1):
        fake_slurm.count(cluster, "seen-1_0")
    for _ in range(questions):
        fake_slurm.count(cluster, "squeue")
    second = executor_of(tmp_path)
    second.submit(job)
    assert second.queued == []
    holding.unlink()
    assert wait_for(second, 1) == {"sae/0": Outcome("finished")}
    assert list(fake_slurm.states(cluster)) == ["1_0"]


def test_nothing_is_submitted_twice_while_squeue_does_not_say_what_still_runs(cluster: Path, tmp_path: Path) -> None:
    first, job = executor_of(tmp_path), job_of(tmp_path, 0)
    holding = hold(job)
    first.submit(job)
    first.wait(0.1)
    (cluster / "silent").touch()
    with pytest.raises(SaeError, match="which tasks of an earlier search still run, but it has failed for 1 s"):
        executor_of(tmp_path).submit(job)
    assert list(fake_slurm.states(cluster)) == ["1_0"]
    holding.unlink()
    assert wait_for(first, 1) == {"sae/0": Outcome("finished")}


def test_tasks_that_squeue_does_not_list_yet_are_cancelled_before_their_jobs_are_submitted_again(
    cluster: Path, tmp_path: Path
) -> None:
    first, job = executor_of(tmp_path, poll=1000.0), job_of(tmp_path, 0)
    holding = hold(job)
    first.submit(job)
    first.wait(0.1)
    wait_until(lambda: has_begun(job))  # the driver is gone now; it has never asked squeue
    second = executor_of(tmp_path)
    second.submit(job)
    assert fake_slurm.states(cluster) == {"1_0": "CANCELLED"}
    holding.unlink()
    assert wait_for(second, 1) == {"sae/0": Outcome("finished")}
    assert fake_slurm.states(cluster) == {"1_0": "CANCELLED", "2_0": "COMPLETED"}


def test_an_array_whose_acceptance_was_not_answered_does_not_run_unseen(cluster: Path, tmp_path: Path) -> None:
    (cluster / "mute").touch()
    executor, job = executor_of(tmp_path), job_of(tmp_path, 0)
    hold(job)
    executor.submit(job)
    [(_, outcome)] = executor.wait(0.1)
    assert outcome.state == "blocked"
    assert "Socket timed out" in outcome.error
    assert fake_slurm.states(cluster) == {"1_0": "CANCELLED"}


@pytest.mark.parametrize("content", [b"", b'{"state": "fin', b"\xff\xfe", b'{"state": "strange"}'])
def test_a_damaged_outcome_is_a_lost_task(content: bytes, cluster: Path, tmp_path: Path) -> None:
    executor, job = executor_of(tmp_path), job_of(tmp_path, 0)
    hold(job)
    executor.submit(job)
    wait_until(lambda: executor.wait(0.1) == [] and has_begun(job))
    fake_slurm.kill(cluster, "1_0")
    (executor.tasks[0].folder / "outcome-0.json").write_bytes(content)
    [outcome] = wait_for(executor, 1).values()
    assert outcome.state == "lost"


def test_a_machine_without_slurm_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="needs SLURM's command sbatch, which this machine does not have"):
        executor_of(tmp_path)


def test_a_job_is_the_same_after_its_way_through_a_file(tmp_path: Path) -> None:
    job = Job("sae/0", SHORT, tmp_path, until=3, source=tmp_path / "x", shift=True, val_sets="few", plugins=("json",))
    assert JOB.validate_json(JOB.dump_json(job)) == job


def test_a_task_trains_its_job_and_a_second_start_changes_nothing(tmp_path: Path) -> None:
    job = Job("sae/0", SHORT, tmp_path / "run")
    (tmp_path / "job-3.json").write_bytes(JOB.dump_json(job))
    work(tmp_path, 3)
    assert json.loads((tmp_path / "outcome-3.json").read_text()) == {"state": "finished", "error": ""}
    before = (job.folder / "status.json").read_bytes()
    work(tmp_path, 3)
    assert (job.folder / "status.json").read_bytes() == before


def test_a_task_without_a_plugin_is_blocked(tmp_path: Path) -> None:
    job = Job("sae/0", SHORT, tmp_path / "run", plugins=("no_such_module",))
    (tmp_path / "job-0.json").write_bytes(JOB.dump_json(job))
    work(tmp_path, 0)
    outcome = json.loads((tmp_path / "outcome-0.json").read_text())
    assert outcome["state"] == "blocked"
    assert "No module named 'no_such_module'" in outcome["error"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--partition", "long"), "--partition needs --executor slurm"),
        (("--array-max", "3"), "--array-max needs --executor slurm"),
        (("--executor", "slurm", "--workers", "2"), "--workers is not for --executor slurm"),
    ],
)
def test_options_without_effect_are_refused(flags: tuple[str, ...], message: str, tmp_path: Path) -> None:
    code, _, stderr = search(tmp_path / "s", "--trials", "1", *flags)
    assert code == 2
    assert message in stderr
