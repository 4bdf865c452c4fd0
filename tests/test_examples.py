import runpy
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
SMALL: dict[str, dict[str, Any]] = {"train_and_read": {"epochs": 1}}
"""Arguments of an example's `main` that make it quick."""


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path))["main"](**SMALL.get(path.stem, {}))
    assert capsys.readouterr().out
