"""The command `sae experiment` from its first trial to the page, left alone and killed on the way."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from tests.end_to_end.killing import PATIENCE, wait_until
from tests.search.studies import SAE

pytestmark = pytest.mark.slow
SETTINGS = """
data: digits
backbone: {name: fc, depth: 2, width: 1}
train: {epochs: 4, lr: 0.001}  # one for all, so that the spaces stay small
search: {methods: [sae, standard], sampler: random, trials: 3, shift: false}
confirm: {seeds: 2, most: 1, each: 1}
spaces: {standard: {backbone: {depth: 2, width: 1}}}
"""


def start(folder: Path, *flags: str) -> "subprocess.Popen[str]":
    """Start the experiment in a folder of its own, as a process group."""
    folder.mkdir(exist_ok=True)
    (folder / "tiny.yaml").write_text(SETTINGS)
    return subprocess.Popen(
        [*SAE, "experiment", "tiny.yaml", "--workers", "1", "--json", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(folder: Path, *flags: str) -> dict[str, Any]:
    process = start(folder, *flags)
    out, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, error
    report: dict[str, Any] = json.loads(out)
    return report


def study(folder: Path) -> Path:
    """Return the default study folder."""
    return folder / "experiments" / "tiny-small"


def trained(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the metrics of every run and when they were written, by path."""
    paths = study(folder).rglob(RunRecord.METRICS)
    return {str(path.relative_to(study(folder))): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


def numbers(folder: Path) -> dict[str, bytes]:
    return {name: content for name, (content, _) in trained(folder).items()}


def confirmed(folder: Path) -> list[dict[str, Any]]:
    """Return the confirmed configurations without their times."""
    items = json.loads((study(folder) / StudyRecord.CONFIRMED).read_text())["front"]
    return [{key: value for key, value in item.items() if key != "seconds"} for item in items]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("experiment") / "whole"
    return folder, finish(folder)


def test_it_leaves_a_model_its_receipt_and_a_page(whole: tuple[Path, dict[str, Any]]) -> None:
    folder, report = whole
    assert (folder / report["model"]).stat().st_size > 1000
    page = (folder / report["report"]).read_text(encoding="utf-8")
    assert report["pick"]["recommendation"]["state"] == "too little evidence"  # four trials
    assert f"So far {report['pick']['trial']} leads: " in page
    assert "ms for 64 samples" in page
    assert report["receipt"]["rows"]["pick"]["trial"] == report["pick"]["trial"]
    assert len(report["confirmed"]["seeds"]) == 2
    beside = report["pick"]["baselines"]
    assert list(beside["val"]) == ["this network", "class shares", "logistic regression on 16 × 16 pixels"]
    assert beside["verdict"] == report["receipt"]["verdict"]  # after four epochs
    assert beside["verdict"].startswith("Logistic regression on 16 × 16 pixels is better here: NLL ")
    assert beside["verdict"] in page.replace("\u00a0", " ")
    assert (study(folder) / StudyRecord.BASELINES).stat().st_size < 30_000
    assert sum("trials/" in name for name in trained(folder)) == 3 + 1


def test_the_same_command_again_trains_nothing_and_says_the_same(whole: tuple[Path, dict[str, Any]]) -> None:
    folder, report = whole
    before = trained(folder)
    assert finish(folder) == report
    assert trained(folder) == before


def test_the_same_command_again_tells_people_the_results(whole: tuple[Path, dict[str, Any]]) -> None:
    folder, report = whole
    command = [*SAE, "experiment", "tiny.yaml", "--workers", "1"]
    told = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    assert all(text in told for text in (report["pick"]["trial"], report["model"], report["report"]))


def kill_when(folder: Path, is_time: Callable[[], Any]) -> None:
    """Start the command, and kill it with all its workers as soon as a condition holds."""
    process = start(folder)
    wait_until(lambda: process.poll() is not None or is_time())
    assert process.poll() is None, "it was done before it could be killed"
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_killed_while_searching_and_while_confirming_it_ends_as_one_left_alone(
    whole: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    kill_when(folder, lambda: len(list(study(folder).glob("trials/sae/*/history.csv"))) >= 2)
    assert not (study(folder) / StudyRecord.CONFIRM).exists()
    kept = {name for name in trained(folder) if (study(folder) / name).with_name(RunRecord.STATUS).exists()}
    seen = {name: value for name, value in trained(folder).items() if name in kept}
    kill_when(folder, lambda: list(study(folder).glob("confirm/*/*/*/history.csv")))
    assert not (study(folder) / StudyRecord.CONFIRMED).exists()
    assert {name: trained(folder)[name] for name in seen} == seen  # not trained again
    report = finish(folder)
    assert numbers(folder) == numbers(whole[0])
    assert confirmed(folder) == confirmed(whole[0])
    for key in ("trial", "eval_exits", "values", "test"):
        assert report["pick"][key] == whole[1]["pick"][key]
    assert (folder / report["report"]).exists()
