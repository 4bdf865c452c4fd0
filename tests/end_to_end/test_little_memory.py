"""Training under a real limit on memory, as with `ulimit -v`: one sentence, and no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

resource = pytest.importorskip("resource", reason="this system has no limits on memory")
STATUS = Path("/proc/self/status")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not STATUS.exists(), reason="needs /proc, to see how much memory the imports take"),
]

SAE = [sys.executable, "-m", "sae"]
IMPORTS = (
    "import sae.training.run, sae.training.baselines, sklearn.linear_model; print(open('/proc/self/status').read())"
)
SPARE = 300 << 20
"""Bytes beyond what the imports take; the network below needs gigabytes."""
WIDE = ("--set", "backbone.width=64", "--epochs", "1")


def start(words: list[str], limit: int | None = None) -> "subprocess.CompletedProcess[str]":
    def set_limit() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        preexec_fn=set_limit,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_a_network_that_does_not_fit_into_memory_is_refused_in_one_sentence(tmp_path: Path) -> None:
    status = start([sys.executable, "-c", IMPORTS]).stdout
    imports = int(status.partition("VmPeak:")[2].split()[0]) << 10
    done = start([*SAE, "train", "--data", "digits", *WIDE, "--out", str(tmp_path / "run")], imports + SPARE)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: the memory of this machine is not enough")
    assert not (tmp_path / "run" / "status.json").exists()


@pytest.mark.parametrize("megabytes", [450, 550, 650, 767])
def test_a_limit_too_small_for_torch_is_refused_in_one_sentence(megabytes: int, tmp_path: Path) -> None:
    done = start([*SAE, "train", "--data", "digits", "--epochs", "1", "--out", str(tmp_path / "x")], megabytes << 20)
    assert done.returncode == 2
    assert done.stderr == (
        f"error: the limit on memory must be at least 768 MB to load torch, got {megabytes} MB: "
        f"raise it with ulimit -v 786432, or remove it\n"
    )
    assert not (tmp_path / "x").exists()
