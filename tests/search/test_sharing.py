from pathlib import Path
from typing import Any

import pytest

from sae.config.run import RunConfig
from sae.search.job import Job
from sae.search.sharing import gives_members, with_sources
from tests.builders import run_config


def config(method: str, members: int | None = None, **settings: Any) -> RunConfig:
    return run_config(method={"name": method, **({"members": members} if members else {})}, **settings)


@pytest.mark.parametrize(
    ("source", "taker", "gives"),
    [
        (config("ensemble", 3), config("ensemble", 2), True),
        (config("ensemble", 3), config("standard"), True),
        (config("ensemble", 1), config("standard"), True),
        (config("ensemble", 2), config("ensemble", 2), False),
        (config("ensemble", 2), config("ensemble", 3), False),
        (config("standard"), config("ensemble", 1), False),
        (config("standard"), config("standard"), False),
        (config("ensemble", 3), config("ensemble", 2, seed=1), False),
        (config("ensemble", 3), config("batch_ensemble", 2), False),
        (config("batch_ensemble", 3), config("standard"), False),
    ],
)
def test_members_come_from_larger_ensembles_of_the_same_networks(
    source: RunConfig, taker: RunConfig, gives: bool
) -> None:
    assert gives_members(source, taker) == gives


def test_the_largest_ensemble_comes_first_and_gives_its_members_to_all() -> None:
    methods = [config("standard"), config("ensemble", 1), config("ensemble", 4), config("sae"), config("ensemble", 2)]
    jobs = with_sources(Job(str(number), method, Path(str(number))) for number, method in enumerate(methods))
    assert [job.name for job in jobs] == ["2", "4", "1", "3", "0"]
    assert {job.name: job.source for job in jobs} == {
        **dict.fromkeys(["0", "1", "4"], Path("2")),
        **dict.fromkeys(["2", "3"]),
    }
