from pathlib import Path

import pytest

import sae.cli.search
from tests.search.studies import FINISHED, InlineExecutor, search


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> InlineExecutor:
    """Let searches of this test train in this process, which saves starting workers."""
    executor = InlineExecutor()
    monkeypatch.setattr(sae.cli.search, "make_executor", lambda *_: executor)
    return executor


@pytest.fixture(scope="session")
def finished_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a study of SAE, ensembles and a standard network that tests only read."""
    out = tmp_path_factory.mktemp("studies") / "finished"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sae.cli.search, "make_executor", lambda *_: InlineExecutor())
        code, _, error = search(out, *FINISHED)
    assert code == 0, error
    return out
