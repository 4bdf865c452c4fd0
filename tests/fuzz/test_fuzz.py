"""Malformed files of every kind that we read, through the command line: one sentence, no traceback, no hang."""

import math
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.corpus import Seed, damage, make_corpus
from tests.fuzz.running import Ended, call_here, run_command
from tests.unprivileged import shared_folder

QUICK_FILES, MANY_FILES, QUICK_SEED = 24, 400, 1
HERE_FILES, HERE_SECONDS = 600, 90
"""Files that are tried in one process, at most for so long."""
SEED = int(os.environ.get("SAE_FUZZ_SEED", "2"))
FILES = int(os.environ.get("SAE_FUZZ_FILES", str(MANY_FILES)))
WRITING = ("train", "search", "export", "evaluate")
"""Commands that write into the folders that they read."""
HEAVY = ("report", "export", "search")
"""Commands that take seconds, and have a smaller share of the files."""

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forked processes")


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with shared_folder() as folder, pytest.MonkeyPatch.context() as patch:
        (folder / "cache").mkdir()
        (folder / "cache").chmod(0o777)
        patch.setenv("SAE_CACHE", str(folder / "cache"))
        patch.setenv("HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def seeds(place: Path) -> list[Seed]:
    (place / "corpus").mkdir()
    return make_corpus(place / "corpus")


def try_one(seed: Seed, content: bytes, place: Path, *, here: bool = False) -> Ended:
    """Run the command of a seed where one file is malformed; afterwards everything is as it was."""
    corpus, work = place / "corpus", place / "work"
    if not work.exists():
        shutil.copytree(corpus, work)
    (work / seed.file).write_bytes(content)
    before = Path.cwd()
    os.chdir(work)
    try:
        return call_here(seed.command.split()) if here else run_command(seed.command.split(), place)
    finally:
        os.chdir(before)
        if seed.command.split()[0] in WRITING:
            shutil.rmtree(work)
        else:
            shutil.copy(corpus / seed.file, work / seed.file)


def fuzz(
    seeds: list[Seed], place: Path, files: int, run_seed: int, *, here: bool = False, seconds: float = math.inf
) -> tuple[Counter[str], list[str]]:
    """Try malformed files, each seed in turn, perhaps in this process; return how they ended, and what went wrong."""
    end = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    wrong = []
    light = [seed for seed in seeds if seed.command.split()[0] not in HEAVY]
    for number in range(files):
        if time.monotonic() > end:
            break
        pool = seeds if number < len(seeds) or number % 5 == 0 else light
        seed = pool[(number + run_seed) % len(pool)]
        ended = try_one(seed, damage(seed, place / "corpus", number, run_seed), place, here=here)
        fault = ended.fault or ("a broken study" if seed.stays_whole and ended.code else None)
        counts[fault or f"exit code {ended.code}"] += 1
        if fault:
            wrong.append(f"{fault}: seed {run_seed}, file {number}, {seed.name}\n{ended.error[-1500:]}")
    return counts, wrong


@pytest.mark.slow
def test_the_files_as_they_are_can_be_read(seeds: list[Seed], place: Path) -> None:
    """Otherwise malformed ones would be refused for another reason."""
    for seed in seeds:
        if seed.command.split()[0] in HEAVY or seed.file in ("config.yaml", "begun/config.yaml", "images.npz"):
            continue
        ended = try_one(seed, (place / "corpus" / seed.file).read_bytes(), place)
        assert ended.code == 0, f"{seed.name}: {ended.error}"


def test_some_malformed_files_end_in_one_sentence(seeds: list[Seed], place: Path) -> None:
    light = [seed for seed in seeds if seed.command.split()[0] not in (*HEAVY, "train", "evaluate")]
    counts, wrong = fuzz(light, place, QUICK_FILES, QUICK_SEED)
    sys.stdout.write(f"{QUICK_FILES} malformed files with seed {QUICK_SEED}: {dict(counts)}\n")
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
def test_many_malformed_files_in_one_process_end_in_one_sentence(seeds: list[Seed], place: Path) -> None:
    reading = [seed for seed in seeds if seed.command.split()[0] in ("data", "predict")]
    counts, wrong = fuzz(reading, place, HERE_FILES, SEED, here=True, seconds=HERE_SECONDS)
    sys.stdout.write(f"{counts.total()} malformed files with seed {SEED}: {dict(counts)}\n")
    assert counts.total() > 60
    assert not wrong, f"{len(wrong)} of {counts.total()}:\n" + "\n".join(wrong)


@pytest.mark.slow
def test_many_malformed_files_end_in_one_sentence(seeds: list[Seed], place: Path) -> None:
    counts, wrong = fuzz(seeds, place, FILES, SEED)
    sys.stdout.write(f"{FILES} malformed files with seed {SEED}: {dict(counts)}\n")
    assert not wrong, f"{len(wrong)} of {FILES}:\n" + "\n".join(wrong)
