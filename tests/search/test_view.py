from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sae.analysis.candidates import front
from sae.core.task import Classification, DataSpec
from sae.records.study import StudyRecord
from sae.search.driver import Budget, Driver
from sae.search.space import read_space
from sae.search.storage import close_storage, open_studies
from sae.search.view import SearchView
from tests.search.studies import InlineExecutor


@pytest.fixture
def driver(finished_study: Path) -> Iterator[Driver]:
    record = StudyRecord(finished_study)
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

    monkeypatch.setattr("sae.search.view.front", count)
    seen = SearchView(driver)
    for _ in range(3):
        seen.render()
    assert len(calls) == 1
    monkeypatch.setattr(driver, "num_ended", lambda: 7)
    assert [item.trial.name for item in seen.front()]
    assert len(calls) == 2
