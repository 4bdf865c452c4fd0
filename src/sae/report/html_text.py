"""Texts of a report as HTML."""

import re
from html import escape


def prose(text: str) -> str:
    """Text as HTML; what is between backticks becomes code.

    Example:
        >>> prose("a < b: run `sae pick`")
        'a &lt; b: run <code>sae pick</code>'
    """
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text))
