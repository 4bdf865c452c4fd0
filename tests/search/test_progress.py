"""Progress of a search, on a terminal and in a log."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sae.analysis.candidates import front
from sae.core.task import Classification, DataSpec
from sae.records.study import StudyRecord
from sae.search.driver import Budget, Driver
from sae.search.method_study import close_storage, open_studies
from sae.search.progress import SearchView
from sae.search.space import read_space
from tests.search.studies import InlineExecutor, finish_search, search

pytestmark = pytest.mark.long

TWO = ("--sampler", "random", "--trials", "2")
FINISHED = r"{} finished in \d+ s, nll \d\.\d+, cc_ece \d\.\d+, flops [\d,]+ \({}\)"


def test_a_process_without_a_terminal_says_a_line_for_every_trial(tmp_path: Path) -> None:
    code, _, error = finish_search(tmp_path / "x", *TWO, "--confirm", "1", "--confirm-most", "1")
    assert code == 0, error
    announced, *lines, confirmed = error.splitlines()
    assert announced.startswith("searching for the best nll, cc_ece, flops: sae by random, 2 trials each, the first")
    expected = [FINISHED.format(f"sae/{number}", f"{number + 1} of 2") for number in range(2)]
    assert len(lines) == 2, error
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(pattern, line)
    assert re.fullmatch(r"sae/[01] seed 1 finished in \d+ s \(1 of 1\)", confirmed)


def test_what_ended_in_an_earlier_session_is_not_said_again(tmp_path: Path, inline: InlineExecutor) -> None:
    flags = ("--sampler", "random", "--confirm", "1")
    assert search(tmp_path / "x", *flags, "--trials", "1")[0] == 0
    _, _, error = search(tmp_path / "x", *flags, "--trials", "1")
    assert len(error.splitlines()) == 1
    _, _, error = search(tmp_path / "x", *flags, "--trials", "2")
    assert re.fullmatch(FINISHED.format("sae/1", "2 of 2"), error.splitlines()[1])
    assert "sae/0 finished" not in error


def test_a_trial_that_failed_says_why(tmp_path: Path, inline: InlineExecutor) -> None:
    _, _, error = search(tmp_path / "x", *TWO, "--set", "train.lr=1.0e+30")
    assert re.search(r"^sae/0 failed: .*finite.* \(1 of 2\)$", error, re.MULTILINE)


@pytest.mark.slow
def test_a_trial_that_is_stopped_early_says_so(tmp_path: Path, inline: InlineExecutor) -> None:
    flags = ("--epochs", "2", "--stop-early", "--set", "search.reduction=2")
    _, _, error = search(tmp_path / "x", "--sampler", "random", "--trials", "5", *flags)
    assert re.search(r"^sae/\d stopped early \(\d of 5\)$", error, re.MULTILINE)


@pytest.fixture
def driver(finished_study: Path) -> Iterator[Driver]:
    record = StudyRecord.open(finished_study)
    spaces = [read_space(method, template) for method, template in record.config.spaces.items()]
    studies = open_studies(f"sqlite:///{finished_study / record.STORAGE}", record.config, spaces, record.objectives)
    yield Driver(record, studies, DataSpec((1, 16, 16), Classification(10)), InlineExecutor(), Budget(3, None))
    close_storage(studies)


def test_the_headline_counts_what_ended_of_what_is_planned(driver: Driver) -> None:
    assert SearchView(driver).headline() == "trials: 6 finished of 6; time left not known yet"


def test_the_front_is_looked_for_again_only_when_a_trial_has_ended(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def count(*arguments: Any) -> Any:
        calls.append(arguments)
        return front(*arguments)

    monkeypatch.setattr("sae.search.progress.front", count)
    seen = SearchView(driver)
    for _ in range(3):
        seen.render()
    assert len(calls) == 1
    monkeypatch.setattr(driver, "num_ended", lambda: 7)
    assert [item.label for item in seen.front()]
    assert len(calls) == 2
