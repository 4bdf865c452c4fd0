from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test has a cache of its own, and no data root unless it names one."""
    monkeypatch.setenv("SAE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SAE_DATA_ROOT", str(tmp_path / "root"))  # so that it is restored after the test
