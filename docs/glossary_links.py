"""Links from the first use of a special word on each page to its definition in the glossary.

A word in bold in the first column of a table of `glossary.md` is special. Pages need no markup for it, so a link can be
neither forgotten nor made twice.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

GLOSSARY = "glossary"
ROW = re.compile(r"^\| (?P<words>[^|]*\*\*[^|]*) \|", re.MULTILINE)
BOLD = re.compile(r"\*\*(.+?)\*\*(?!\*)")
SKIPPED = (
    nodes.title,
    nodes.literal,
    nodes.literal_block,
    nodes.doctest_block,
    nodes.reference,
    nodes.raw,
    nodes.math,
    nodes.comment,
    addnodes.desc_signature,
    addnodes.literal_strong,
)
"""Where a word is not linked: headings, code, signatures, and what is a link already."""
GALLERY_CODE = "code_links_block"
"""The name of the node that sphinx-gallery puts in the place of a block of code."""


def read_words(text: str) -> dict[str, str]:
    """Return the special words of the glossary with the anchors of their rows.

    Args:
        text: The page in Markdown. A row may define several words: `**distillation**, **teacher**`.
    """
    words: dict[str, str] = {}
    for match in ROW.finditer(text):
        row = BOLD.findall(match["words"])
        anchor = anchor_of(row[0])
        for word in row:
            if word in words or anchor in (words[other] for other in words if other not in row):
                raise ValueError(f"the glossary must define {word} once")
            words[word] = anchor
    return words


def anchor_of(word: str) -> str:
    """Return the anchor of a word: letters, digits and hyphens, for Greek letters and signs their numbers."""
    return "term-" + "".join(
        sign.lower() if re.match(r"[a-zA-Z0-9]", sign) else "-" if sign in " -/" else f"{ord(sign):x}"
        for sign in word.replace(r"\*", "*")
    )


def pattern_of(words: list[str]) -> re.Pattern[str]:
    """Return a pattern of the words, alone: K is neither in K′ nor in OK, and D is neither in 2-D nor in §D.

    Words of several small letters may have a plural and begin a sentence.
    """
    shown = []
    for word in sorted(words, key=len, reverse=True):
        plain = re.escape(word.replace(r"\*", "*"))
        is_common = re.fullmatch(r"[a-z][a-z -]+", word)
        shown.append(f"[{word[0]}{word[0].upper()}]{plain[1:]}s?" if is_common else plain)
    return re.compile(rf"(?<![\w|&§-])(?:{'|'.join(shown)})(?![\w′*&|]|-\w| codes?\b)")


def word_in(words: dict[str, str], found: str) -> str:
    """Return the word of the glossary that a text is a form of."""
    forms = {word.replace(r"\*", "*"): word for word in words}
    return next(
        forms[form]
        for form in (found, found[0].lower() + found[1:], found[:-1], found[0].lower() + found[1:-1])
        if form in forms
    )


def linkable(doctree: nodes.document) -> Iterator[nodes.Text]:
    """Return the texts of a page in which words may be linked."""
    for text in list(doctree.findall(nodes.Text)):
        parent: Any = text.parent
        while parent is not None and not isinstance(parent, SKIPPED) and parent.tagname != GALLERY_CODE:
            parent = parent.parent
        if parent is None:
            yield text


def link_first_uses(doctree: nodes.document, words: dict[str, str], address: str) -> None:
    """Link the first use of each word on a page."""
    left = dict(words)
    for text in linkable(doctree):
        parts: list[nodes.Node] = []
        rest = text.astext()
        while left and (found := pattern_of(list(left)).search(rest)):
            anchor = left.pop(word_in(left, found[0]))
            parts.append(nodes.Text(rest[: found.start()]))
            link = nodes.reference("", found[0], internal=True, refuri=f"{address}#{anchor}", classes=["term"])
            parts.append(link)
            rest = rest[found.end() :]
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(rest)])


def anchor_rows(doctree: nodes.document, words: dict[str, str]) -> None:
    """Give the rows of the glossary their anchors."""
    for row in doctree.findall(nodes.row):
        first: Any = row.children[0]
        strong = next(iter(first.findall(nodes.strong)), None)
        if strong is not None and strong.astext().replace("*", r"\*") in words:
            first["ids"].append(words[strong.astext().replace("*", r"\*")])


def resolve(app: Sphinx, doctree: nodes.document, name: str) -> None:
    """Link the words of a page, or give the glossary its anchors."""
    words = read_words(Path(app.srcdir, f"{GLOSSARY}.md").read_text(encoding="utf-8"))
    if name == GLOSSARY:
        anchor_rows(doctree, words)
    else:
        link_first_uses(doctree, words, app.builder.get_relative_uri(name, GLOSSARY))


def setup(app: Sphinx) -> dict[str, bool]:
    """Link words when pages are written."""
    app.connect("doctree-resolved", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
