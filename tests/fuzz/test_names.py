"""Names that a stranger chose, in the Markdown of cards and tables: they are shown, and never change the page."""

import random
import re
from pathlib import Path

import pytest
import yaml

from sae.core.table import Cell, Column, Table
from sae.deploy.card import card_text
from sae.deploy.manifest import read_manifest
from sae.report.files import to_markdown

markdown_it = pytest.importorskip("markdown_it")

MANIFEST = Path(__file__).parents[1] / "golden" / "study" / "shipped" / "manifest.json"
NAMES = 60
PIECES = (
    *("`", "``", "```\n", "<img src=y onerror=alert(1)>", "</script>", "<!--", "-->", "](javascript:x)", "[a", "![b"),
    *("|", "\n", "\n\n", "---", "\n---\n", "# ", "> ", "- ", "1. ", "*", "**", "_", "__", "~~", "\\", "&lt;", "&#60;"),
    *("    ", "\t", ": ", "{", "%", "'", '"', "\u2028", "\u202e", "=1+1", "cat", "ä", "0", "<b>", "</td></tr>", "$x$"),
)


def random_name(rng: random.Random) -> str:
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 8))) + str(rng.randrange(10**9))


def tags(markdown: str) -> list[str]:
    """The tags of the page that a Markdown text becomes, in order, without those of code."""
    shown = markdown_it.MarkdownIt("gfm-like", {"linkify": False}).render(markdown)
    return [tag for tag in re.findall(r"</?[a-zA-Z!][^>]*>", shown) if "code" not in tag]


def test_names_in_a_card_change_no_tag_and_no_key() -> None:
    manifest, rng = read_manifest(MANIFEST), random.Random(1)

    def card(data: str, names: list[str]) -> tuple[list[str], object]:
        target = manifest.target.model_copy(update={"class_names": tuple(names)})
        run = manifest.run.model_copy(update={"data": data})
        front, body = card_text(manifest.model_copy(update={"target": target, "run": run})).split("\n---\n", 1)
        assert not set("<>") & set(front)
        return tags(body), yaml.safe_load(front.removeprefix("---\n"))

    plain, _ = card("digits", list("0123456789"))
    for _ in range(NAMES):
        data, names = random_name(rng), [random_name(rng) for _ in range(10)]
        shown, front = card(data, names)
        assert shown == plain, (data, names)
        assert isinstance(front, dict)
        assert front["model-index"][0]["results"][0]["dataset"]["name"] == data


def test_names_in_a_table_change_no_tag() -> None:
    rng = random.Random(2)

    def table(names: list[str]) -> str:
        rows = tuple((Cell(name), Cell(0.5)) for name in names[1:])
        return to_markdown(Table("results", names[0], names[0], (Column(names[0]), Column("NLL", digits=3)), rows))

    plain = tags(table(list("abcd")))
    for _ in range(NAMES):
        names = [random_name(rng) for _ in range(4)]
        assert tags(table(names)) == plain, names
