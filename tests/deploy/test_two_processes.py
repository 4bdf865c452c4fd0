"""Two processes that write one file: one succeeds, and the other says in one sentence that it did not."""

import csv
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sae.deploy.runtime import load
from tests.data.samples import write_npz

pytestmark = pytest.mark.slow


def at_once(*commands: Sequence[object]) -> list[tuple[int, str, str]]:
    """Run commands at the same time; return exit codes, and what was printed and said."""
    main = [sys.executable, "-c", "from sae.cli import main; main()"]
    started = [
        subprocess.Popen([*main, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for command in commands
    ]
    printed = [process.communicate(timeout=300) for process in started]
    return [(process.returncode, *texts) for process, texts in zip(started, printed, strict=True)]


def images(path: Path, count: int) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (count, 16, 16), np.uint8)
    return write_npz(path, {"test_images": pixels, "test_labels": np.zeros(count, np.int64)})


def test_a_prediction_that_says_it_succeeded_has_its_own_rows_in_the_file(digits_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.csv"
    data = [images(tmp_path / f"{count}.npz", count) for count in (20_000, 60_000)]
    for _ in range(2):
        ended = at_once(*(["predict", digits_model, path, "--out", out, "--json"] for path in data))
        assert {code for code, *_ in ended} == {0, 2}
        ((_, printed, _),) = [each for each in ended if each[0] == 0]
        ((_, _, said),) = [each for each in ended if each[0] == 2]
        with out.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == json.loads(printed)["samples"]
        assert said == f"error: {out} is being written by another process: wait for it, or name another file\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["20000.npz", "60000.npz", "p.csv"]


def test_of_two_exports_into_one_folder_the_second_is_told_and_the_files_belong_together(
    digits_run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "shipped" / "model.onnx"
    ended = at_once(*(["export", digits_run, "--out", out, "--eval-exits", exits, "--force"] for exits in (1, 2)))
    assert {code for code, *_ in ended} == {0, 2}
    exits = [code for code, *_ in ended].index(0) + 1
    ((_, _, said),) = [each for each in ended if each[0] == 2]
    assert said == f"error: {out} is being written by another process: wait for it, or name another file\n"
    assert load(out).manifest.network.eval_exits == exits
    assert sorted(path.name for path in out.parent.iterdir()) == ["README.md", "manifest.json", "model.onnx"]


def test_of_two_trainings_that_start_over_one_is_told_and_the_run_is_the_other_one(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train = ["train", "--data", "digits", "--backbone", "fc", "--epochs", 3, "--out", run, "--force", "--seed"]
    ended = at_once(*([*train, seed] for seed in (1, 2)))
    assert sorted(code for code, *_ in ended) == [0, 2], ended
    seed = [code for code, *_ in ended].index(0) + 1
    assert f"seed: {seed}\n" in (run / "config.yaml").read_text()
    ((_, _, said),) = [each for each in ended if each[0] == 2]
    assert len([line for line in said.splitlines() if line.startswith("error: ")]) == 1
