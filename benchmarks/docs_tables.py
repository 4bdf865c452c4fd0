"""Generated tables in the pages of the docs, each between two comments."""

from collections.abc import Mapping
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def marked(name: str, text: str) -> str:
    """Return a table between its comments, as on the page."""
    return f"<!-- table: {name} -->\n\n{text}\n\n<!-- end of {name} -->"


def write_tables(page: str, tables: Mapping[str, str]) -> None:
    """Put tables into their places on a page of the docs."""
    path = DOCS / page
    whole = path.read_text(encoding="utf-8")
    for name, text in tables.items():
        before, found, rest = whole.partition(f"<!-- table: {name} -->")
        _, closed, after = rest.partition(f"<!-- end of {name} -->")
        if not (found and closed):
            raise SystemExit(f"{page} must have a place for the table {name}")
        whole = before + marked(name, text) + after
    path.write_text(whole, encoding="utf-8")
