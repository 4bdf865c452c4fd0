"""The tables in docs/reproduction.md: each stands between two comments, and is made of stored results."""

from pathlib import Path

from benchmarks.one_network.regimes import regime_table
from benchmarks.one_network.results import ablation, answer, read_results, table

PAGE = Path(__file__).parents[2] / "docs" / "reproduction.md"


def tables() -> dict[str, str]:
    """Return every table by the name in its comment."""
    results = read_results()
    rows = {name: table(name, results) for name in results}
    return {"answer": answer(results), **rows, "ablation": ablation(results), "regimes": regime_table()}


def marked(name: str, text: str) -> str:
    """Return a table between its comments, as it stands on the page."""
    return f"<!-- table: {name} -->\n\n{text}\n\n<!-- end of {name} -->"


def write_tables() -> None:
    """Put every table into its place on the page."""
    page = PAGE.read_text(encoding="utf-8")
    for name, text in tables().items():
        start, end = f"<!-- table: {name} -->", f"<!-- end of {name} -->"
        before, found, rest = page.partition(start)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise SystemExit(f"{PAGE.name} must have a place for the table {name}")
        page = before + marked(name, text) + after
    PAGE.write_text(page, encoding="utf-8")
