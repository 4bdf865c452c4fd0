"""Ctrl-C at many moments of real processes: exit code 130, one line, no traceback, and nothing half written."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.data.samples import image_bytes

GOLDEN = Path(__file__).parents[1] / "golden"
BEGIN = "from sae.__main__ import main; print('begun', flush=True); main()"
"""What Python itself does with Ctrl-C while it starts is not ours."""
INTERRUPTED = 130
COMMANDS = {
    "train": ("train", "--data", "digits", "--epochs", "1000", "--out", "new"),
    "predict": ("predict", str(GOLDEN / "study" / "shipped" / "model.onnx"), "one.png", "--out", "new.csv"),
    "--help": ("--help",),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc, to see the CPU time of a process"),
]


def cpu_seconds(process: "subprocess.Popen[str]") -> float:
    """Return the CPU time of a process, which a busy machine does not stretch."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def interrupt(command: str, moment: float, folder: Path) -> tuple[int, str]:
    """Send SIGINT to a command after some CPU time since it began; return its exit code and its errors."""
    (folder / "one.png").write_bytes(image_bytes(0, (16, 16), "L"))
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN, *COMMANDS[command]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where tests run in the background
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    start = cpu_seconds(process)
    while process.poll() is None and cpu_seconds(process) < start + moment:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    return process.returncode, error


@pytest.mark.parametrize("moment", [0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 1.5, 2.5])
def test_training_is_interrupted_in_one_line(moment: float, tmp_path: Path) -> None:
    code, error = interrupt("train", moment, tmp_path)
    assert (code, error.splitlines()[-1].partition(";")[0]) == (INTERRUPTED, "interrupted")
    assert "Traceback" not in error
    assert "Exception ignored" not in error
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("command", ["predict", "--help"])
@pytest.mark.parametrize("moment", [0.01, 0.05, 0.1, 0.2, 0.3])
def test_a_quick_command_is_interrupted_in_one_line_or_has_ended(command: str, moment: float, tmp_path: Path) -> None:
    code, error = interrupt(command, moment, tmp_path)
    assert "Traceback" not in error
    assert "Exception ignored" not in error
    assert code in (0, INTERRUPTED, -signal.SIGINT)  # the last while Python ends
    assert not list(tmp_path.rglob("*.tmp"))
