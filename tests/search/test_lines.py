"""What `sae search` says on the way where standard error is no terminal."""

import re
from pathlib import Path

import pytest

from tests.search.studies import InlineExecutor, finish_search, search

TWO = ("--sampler", "random", "--trials", "2")
FINISHED = r"{} finished in \d+ s, nll \d\.\d+, cc_ece \d\.\d+, flops [\d,]+ \({}\)"


def test_a_process_without_a_terminal_says_a_line_for_every_trial(tmp_path: Path) -> None:
    code, _, error = finish_search(tmp_path / "x", *TWO, "--confirm", "1", "--confirm-most", "1")
    assert code == 0, error
    announced, *lines, confirmed = error.splitlines()
    assert announced.startswith("searching for nll, cc_ece, flops")
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
