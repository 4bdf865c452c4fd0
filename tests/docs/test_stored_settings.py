"""The settings in docs/reproduction, which commands on the pages name."""

from pathlib import Path

import pytest

from sae.config.run import parse_run
from sae.config.settings import read_yaml
from sae.experiment import read_preset
from tests.docs.pages import ROOT

FILES = sorted((ROOT / "docs" / "reproduction").glob("*.yaml"))
RUNS = [path for path in FILES if not {"search", "small"} & set(read_yaml(path))]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_stored_settings_are_those_of_a_run(path: Path) -> None:
    assert parse_run(read_yaml(path)).data.name


def test_the_experiment_on_rebuilt_blood_cells_is_the_preset() -> None:
    assert (
        read_yaml(ROOT / "docs" / "reproduction" / "blood-cells-experiment.yaml")["small"]
        == read_preset("bloodmnist")["small"]
    )
