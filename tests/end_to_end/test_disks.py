"""Disks that are read-only or full: one sentence, and nothing that was finished is lost."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data.samples import image_bytes
from tests.fuzz.running import Ended, run_command
from tests.unprivileged import shared_folder

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forked processes")

GOLDEN = Path(__file__).parents[1] / "golden"
MODEL = GOLDEN / "study" / "shipped" / "model.onnx"
TRAIN = ("train", "--data", "digits", "--epochs", "2", "--out")


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder that nobody may write to, with a run and a study; processes in these tests are not almighty."""
    with shared_folder() as folder:
        disk = folder / "disk"
        for name in ("run", "study"):
            shutil.copytree(GOLDEN / name, disk / name)
        (disk / "one.png").write_bytes(image_bytes(0, (16, 16), "L"))
        for path in (disk, *disk.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield disk
        for path in (disk, *disk.rglob("*")):
            path.chmod(0o755)


def start(disk: Path, *arguments: str) -> Ended:
    ended = run_command(list(arguments), disk.parent)
    assert ended.fault is None, ended.error
    return ended


@pytest.mark.parametrize("arguments", [("runs", "run"), ("pareto", "study"), ("pick", "study")])
def test_a_read_only_disk_can_be_read(arguments: tuple[str, str], disk: Path) -> None:
    command, folder = arguments
    assert start(disk, command, str(disk / folder)).code == 0


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (TRAIN, "new"),
        (("predict", str(MODEL), "DISK/one.png", "--out"), "new.csv"),
        (("pareto", "DISK/study", "--csv"), "front.csv"),
        (("search", "--config", str(GOLDEN / "study.yaml"), "--trials", "9", "--out"), "study"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else value,
)
def test_writing_to_a_read_only_disk_is_refused_in_one_sentence(
    arguments: tuple[str, ...], place: str, disk: Path
) -> None:
    before = sorted(disk.rglob("*"))
    ended = start(disk, *(word.replace("DISK", str(disk)) for word in arguments), str(disk / place))
    assert ended.code == 2
    assert str(disk / place) in ended.error
    assert "Permission denied" in ended.error
    assert sorted(disk.rglob("*")) == before


FULL = """
import json, subprocess, sys
from pathlib import Path
disk, model, image, *train = Path(sys.argv[1]), *sys.argv[2:]
def mount(*options):
    subprocess.run(["mount", *options, str(disk)], check=True)
def sae(*words):
    done = subprocess.run([sys.executable, "-m", "sae", *words], capture_output=True, text=True)
    return [done.returncode, done.stderr]
mount("-t", "tmpfs", "-o", "size=1200k", "none")
found = {"train": sae(*train, str(disk / "run")), "status": (disk / "run" / "status.json").exists()}
mount("-o", "remount,size=20m")
found["again"] = sae(*train, str(disk / "run"))
finished = {path.name: path.read_bytes() for path in (disk / "run").iterdir()}
found["first"] = sae("predict", model, image, "--out", str(disk / "p.csv"))
before = (disk / "p.csv").read_bytes()
try:
    with (disk / "fill").open("wb") as file:
        while True:
            file.write(bytes(4096))
except OSError:
    pass
found["predict"] = sae("predict", model, image, "--out", str(disk / "p.csv"))
found["files"] = sorted(path.name for path in disk.iterdir())
found["kept"] = (disk / "p.csv").read_bytes() == before
found["run kept"] = finished == {path.name: path.read_bytes() for path in (disk / "run").iterdir()}
print(json.dumps(found))
"""
"""What happens on a small disk of its own; it is gone with its process."""


@pytest.mark.slow
def test_a_full_disk_ends_in_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    private = ["unshare", "--mount"]
    try:
        tried = subprocess.run(
            [*private, "mount", "-t", "tmpfs", "none", str(tmp_path)], capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("this system has no unshare")
    if tried.returncode:
        pytest.skip("only root can mount a small disk")
    (tmp_path / "disk").mkdir()
    (tmp_path / "one.png").write_bytes(image_bytes(0, (16, 16), "L"))
    words = [sys.executable, "-c", FULL, str(tmp_path / "disk"), str(MODEL), str(tmp_path / "one.png"), *TRAIN]
    done = subprocess.run([*private, *words], capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for command in ("train", "predict"):
        code, error = found[command]
        assert code == 2, error
        assert "could not be written (No space left on device)" in error
        assert "Traceback" not in error
    assert not found["status"]
    assert found["again"][0] == 0, found["again"]
    assert found["first"][0] == 0, found["first"]
    assert found["files"] == ["fill", "p.csv", "run"]
    assert found["kept"]
    assert found["run kept"]
