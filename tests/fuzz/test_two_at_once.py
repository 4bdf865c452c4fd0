"""Two processes with one `--out`, at random moments and with random kills: a file is of one that succeeded."""

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sae.deploy import answers, runtime, sources  # noqa: F401 (imported before processes are forked)
from sae.records.writing import temporaries
from tests.data.samples import write_npz
from tests.fuzz.running import end_of, start_command
from tests.unprivileged import shared_folder

GOLDEN = Path(__file__).parents[1] / "golden"
SEED, QUICK_ROUNDS, ROUNDS = int(os.environ.get("SAE_FUZZ_SEED", "2")), 3, 24
SIZES = (3, 20_000)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forked processes")


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with shared_folder() as folder:
        shutil.copytree(GOLDEN / "study" / "shipped", folder / "model")
        for size in SIZES:
            pixels = np.random.default_rng(size).integers(0, 256, (size, 16, 16), np.uint8)
            write_npz(folder / f"{size}.npz", {"images": pixels})
            (folder / f"said-{size}").mkdir()
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o777)
        yield folder


def predict(place: Path, size: int, out: Path) -> int:
    command = ["predict", str(place / "model"), str(place / f"{size}.npz"), "--out", str(out)]
    return start_command(command, place / f"said-{size}")


def try_pairs(place: Path, rounds: int, seed: int) -> Counter[str]:
    """Start pairs of predictions with one target; check the target after each, and return how they ended."""
    rng, out, counts = random.Random(seed), place / "p.csv", Counter[str]()
    whole = {}
    for size in SIZES:
        assert end_of(predict(place, size, out), place / f"said-{size}").code == 0
        whole[size] = out.read_bytes()
    for number in range(rounds):
        out.unlink(missing_ok=True)
        order = rng.sample(SIZES, 2)
        children = {}
        for size in order:
            children[size] = predict(place, size, out)
            time.sleep(rng.choice((0, 0, 0.01, 0.1)))
        if rng.random() < 0.4:
            time.sleep(rng.uniform(0, 0.3))
            os.kill(children[rng.choice(order)], signal.SIGKILL)
        ended = {size: end_of(child, place / f"said-{size}") for size, child in children.items()}
        told = f"round {number} of seed {seed}: {ended}"
        succeeded = [size for size in SIZES if ended[size].code == 0]
        if succeeded:
            assert out.read_bytes() in [whole[size] for size in succeeded], told
        for end in ended.values():
            assert end.code in (0, 2, -signal.SIGKILL), told
            assert end.code != 2 or "p.csv is being written by another process" in end.error, told
            counts[f"exit code {end.code}"] += 1
    assert end_of(predict(place, SIZES[0], out), place / f"said-{SIZES[0]}").code == 0
    assert temporaries(out) == []
    return counts


@pytest.mark.long
def test_some_pairs_leave_a_file_of_one_that_succeeded(place: Path) -> None:
    assert try_pairs(place, QUICK_ROUNDS, 1)["exit code 0"] > 0


@pytest.mark.slow
def test_many_pairs_leave_a_file_of_one_that_succeeded(place: Path) -> None:
    counts = try_pairs(place, ROUNDS, SEED)
    print(dict(counts))  # noqa: T201
    assert counts["exit code 2"] > 0
