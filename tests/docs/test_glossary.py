"""Special words are defined once, in the glossary, and every page links the first use of each to it."""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

pytest.importorskip("sphinx")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")  # Sphinx's
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))

from glossary_links import linkable, read_words  # type: ignore[import-not-found]  # noqa: E402

WORDS = read_words((DOCS / "glossary.md").read_text(encoding="utf-8"))
PAGE = """# K and NLL

As §D says, a network keeps K of its exits, at most D; OK, 2-D. [The NLL](https://example.org), `ECE`,
then NLL, K′ and K again.
Deep ensembles have members. An exit code is none; an exit is one.

```python
K = "CC-ECE"
```
"""


def build(source: Path, out: Path, *left_out: str) -> dict[str, str]:
    """Build pages in Markdown with the links, and return the HTML of each."""
    from sphinx.application import Sphinx

    settings = {
        "extensions": ["myst_parser", "glossary_links"],
        "exclude_patterns": list(left_out),
        "myst_heading_anchors": 4,
        "html_theme": "basic",
        "suppress_warnings": ["myst.xref_missing", "toc", "ref", "image", "misc"],
    }
    app = Sphinx(str(source), None, str(out), str(out), "html", settings, status=None, warning=None)
    app.build()
    return {path.stem: path.read_text(encoding="utf-8") for path in out.glob("*.html")}


class Reader(HTMLParser):
    """The text of a page outside headings, code and other links, and where it links to the glossary."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        kinds = dict(attributes).get("class") or ""
        if tag not in ("br", "img", "hr", "link", "meta", "input", "col"):
            self.open.append("term" if tag == "a" and "term" in kinds.split() else tag)
        if "body" in kinds.split() and tag == "div":
            self.texts.clear()

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() not in (tag, "term" if tag == "a" else tag):
            pass

    def handle_data(self, data: str) -> None:
        if not {"a", "code", "pre", "script", "style", "title", "h1", "h2", "h3", "h4"} & set(self.open):
            self.texts.append((data, "term" in self.open))


def first_uses(page: str) -> Iterator[tuple[str, bool]]:
    """Return each special word of a page and whether its first use, by a plain search, is a link."""
    reader = Reader()
    reader.feed(page[page.index('<div class="body"') : page.index('<div class="sphinxsidebar"')])
    for word in WORDS:
        shown = re.escape(word.replace("\\*", "*"))
        forms = f"(?:{shown}|{shown.capitalize()})s?" if len(word) > 3 and word.islower() else shown
        for text, is_link in reader.texts:
            if re.search(rf"(?<![\w|&§-]){forms}(?![\w′*&|]|-\w| codes?\b)", text):
                yield word, is_link
                break


def test_first_uses_are_linked_outside_headings_code_and_links(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text(PAGE, encoding="utf-8")
    (source / "glossary.md").write_bytes((DOCS / "glossary.md").read_bytes())
    pages = build(source, tmp_path / "out")
    links = re.findall(r'<a class="term reference internal" href="glossary.html#(\S+)">(.*?)</a>', pages["index"])
    shown = ["K", "exits", "D", "NLL", "K′", "Deep ensembles", "members"]
    assert [text for _, text in links] == shown
    for anchor, _ in links:
        assert f'<td id="{anchor}">' in pages["glossary"].replace('" class="row-odd', "")
    assert all(is_link for _, is_link in first_uses(pages["index"]))


def test_code_of_the_gallery_is_not_linked() -> None:
    nodes, utils = pytest.importorskip("docutils.nodes"), pytest.importorskip("docutils.utils")
    gallery = pytest.importorskip("sphinx_gallery._doctree_links", reason="older versions have no such node")
    page = utils.new_document("page")
    page += [nodes.paragraph("", "NLL"), gallery.code_links_block("", "", nodes.inline("", "K"))]
    assert [text.astext() for text in linkable(page)] == ["NLL"]


def test_a_use_that_is_not_linked_is_found_out() -> None:
    page = '<div class="body"><p>The NLL, <a class="term" href="#">NLL</a>.</p></div><div class="sphinxsidebar"'
    assert list(first_uses(page)) == [("NLL", False)]


@pytest.mark.slow
def test_every_page_links_the_first_use_of_a_special_word(tmp_path: Path) -> None:
    pages = build(DOCS, tmp_path, "gallery", "api.rst", "changelog.md", "contributing.md")
    count = 0
    for name, page in pages.items():
        if (DOCS / f"{name}.md").exists() and name != "glossary":
            found = dict(first_uses(page))
            assert all(found.values()), f"{name}: {[word for word, is_link in found.items() if not is_link]}"
            count += len(found)
    assert count > 100


def test_a_word_cannot_be_defined_twice() -> None:
    with pytest.raises(ValueError, match="must define K once"):
        read_words("| **K** | one |\n| **K** | another |\n")
