"""The settings in docs/reproduction, which commands on the pages name."""

from pathlib import Path

import pytest

from sae.config.run import parse_run
from sae.config.settings import read_yaml
from tests.docs.pages import ROOT

FILES = sorted((ROOT / "docs" / "reproduction").glob("*.yaml"))
RUNS = [path for path in FILES if "search" not in read_yaml(path)]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_stored_settings_are_those_of_a_run(path: Path) -> None:
    assert parse_run(read_yaml(path)).data.name
