"""A reader of the plain YAML that runs' settings are written in, six times as fast as a YAML loader.

A study of ten thousand trials has ten thousand small files of nested `key: value` lines. `read_plain` returns for such
a text exactly what the loader would, and leaves every other text to the loader.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Union

Scalar = bool | int | float | str | None
Plain = dict[str, Union["Plain", list[Scalar], Scalar]]

LONGEST = 10_000
"""Characters of a text that may be plain; the settings of a run take some hundreds."""
DEEPEST = 8
"""Levels of nested mappings that may be plain."""

WHOLE, REAL = r"-?(?:0|[1-9][0-9]{0,17})", r"-?(?:0|[1-9][0-9]*)\.[0-9]+(?:e[-+][0-9]{1,3})?"
SCALAR = rf"({WHOLE})|({REAL})|([A-Za-z][A-Za-z_0-9/-]*)"
"""A whole number, a real number, or a word."""
COMMENT = re.compile(r"#[ -~]*")
LINE = re.compile(rf"( *)(?:([a-z][a-z_0-9]*):(?: (?:{SCALAR}))?|- (?:{SCALAR}))")
"""A key with or without a value, or an item of a list."""
PIECE = re.compile(r"\n(?=[a-z])")
NUMBER = re.compile(rf"(?<=: )({WHOLE}|{REAL})(?=\n|\Z)")
"""A number that is the value of a key."""
CONSTANTS = {"null": None, "true": True, "false": False}
AMBIGUOUS = frozenset({"y", "n", "yes", "no", "on", "off", *CONSTANTS})
"""Words that YAML 1.1 reads as something else, at least in some spelling."""


def read_plain(text: str) -> Plain | None:
    """Return the mapping that a plain text holds; None if the text is anything but plain.

    A plain text has comments, and lines of a key and its value: a number, a word, `true`, `false`, `null`, a list of
    these, or a mapping that is indented by two more spaces.

    Example:
        >>> read_plain("seed: 3"), read_plain("rate: 1.0e-05")
        ({'seed': 3}, {'rate': 1e-05})
        >>> read_plain("seed: [3]") is None
        True
    """
    if len(text) > LONGEST:
        return None
    reader = _Reader()
    lines = (line for line in text.split("\n") if line and not (line[0] == "#" and COMMENT.fullmatch(line)))
    is_plain = all(map(reader.read, lines))
    return reader.path[0] if is_plain and reader.path[0] and reader.open is None else None


Skeleton = tuple[str, ...]
"""A text without the numbers that are values of keys: what is before, between and behind them."""


def read_alike(text: str) -> tuple[Plain, Skeleton] | None:
    r"""Return what `read_plain` returns, and the skeleton of the text; texts that share a skeleton are read once.

    Example:
        >>> read_alike("rate:\n  start: 1.0\n  end: 2")
        ({'rate': {'start': 1.0, 'end': 2}}, ('rate:\n  start: ', '\n  end: ', ''))
    """
    if len(text) > LONGEST:
        return None
    parts = NUMBER.split(text)
    skeleton = tuple(parts[::2])
    template = template_of(skeleton)
    if template is None:
        return None
    return _fill(template, (float(part) if "." in part else int(part) for part in parts[1::2])), skeleton


@lru_cache(maxsize=256)
def template_of(skeleton: Skeleton) -> Plain | None:
    """Return the mapping of a skeleton with 0 for every number; None if texts with this skeleton are not plain."""
    found = read_plain("0".join(skeleton))
    return found if found is not None and _count_numbers(found) == len(skeleton) - 1 else None


def _count_numbers(values: Plain) -> int:
    return sum(_count_numbers(value) if isinstance(value, dict) else _is_number(value) for value in values.values())


def _is_number(value: object) -> bool:
    return type(value) is int or type(value) is float  # True is an int as well


def _fill(template: Plain, numbers: Iterator[Scalar]) -> Plain:
    """Return a template with these numbers in its own order, which is that of the text."""
    return {
        key: _fill(value, numbers) if isinstance(value, dict) else next(numbers) if _is_number(value) else value
        for key, value in template.items()
    }


def split_plain(text: str) -> list[str]:
    r"""Return the pieces of a plain text, one for each key of its outermost mapping, without a comment before them.

    If every piece is plain and no key is given twice, the text is plain and holds the same values.

    Example:
        >>> split_plain("# note\ndata:\n  name: digits\nseed: 3\n")
        ['data:\n  name: digits', 'seed: 3\n']
    """
    pieces = PIECE.split(text)
    return pieces[1:] if len(pieces) > 1 and COMMENT.fullmatch(pieces[0]) else pieces


class _Reader:
    """State of a reader between two lines.

    Attributes:
        path: The mappings from the outermost to the one that is being read.
        open: The key of that mapping whose value has not begun yet, if any.
        items: The list that is being read, if any.
    """

    def __init__(self) -> None:
        self.path: list[Plain] = [{}]
        self.open: str | None = None
        self.items: list[Scalar] | None = None

    def read(self, line: str) -> bool:
        """Take in one more line; return whether it was plain."""
        found = LINE.fullmatch(line)
        if found is None:
            return False
        spaces, key, whole, real, word, item_whole, item_real, item_word = found.groups()
        level, odd = divmod(len(spaces), 2)
        if odd:
            return False
        if key is None:
            return self._read_item(level, item_whole, item_real, item_word)
        if not self._enter(level) or key in self.path[-1] or key in AMBIGUOUS:
            return False
        if whole is None and real is None and word is None:
            self.open = key
            return True
        if not _is_clear(word):
            return False
        self.path[-1][key] = _scalar(whole, real, word)
        return True

    def _enter(self, level: int) -> bool:
        """Go to the mapping at this level: that of the open key, the current one, or one around it."""
        if self.open is not None:
            inner: Plain = {}
            self.path[-1][self.open] = inner
            self.path.append(inner)
            self.open = None
            return level == len(self.path) - 1 <= DEEPEST
        self.items = None
        if level >= len(self.path):
            return False
        del self.path[level + 1 :]
        return True

    def _read_item(self, level: int, whole: str | None, real: str | None, word: str | None) -> bool:
        """Take in an item of a list, which is as far to the right as the key of the list."""
        if self.open is not None:
            self.items = []
            self.path[-1][self.open] = self.items
            self.open = None
        if self.items is None or level != len(self.path) - 1 or not _is_clear(word):
            return False
        self.items.append(_scalar(whole, real, word))
        return True


def _is_clear(word: str | None) -> bool:
    return word is None or word in CONSTANTS or word.lower() not in AMBIGUOUS


def _scalar(whole: str | None, real: str | None, word: str | None) -> Scalar:
    if word is not None:
        return CONSTANTS.get(word, word)
    return int(whole) if whole is not None else float(real or "nan")
