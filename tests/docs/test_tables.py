"""Tables of the docs that are made from stored results."""

import json

from benchmarks.signals import STORED, table

from tests.docs.pages import ROOT


def test_the_table_of_signals_shows_the_stored_results() -> None:
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    assert table(json.loads(STORED.read_text(encoding="utf-8"))) in page
