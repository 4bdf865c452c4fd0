"""Fenced blocks of the README and the pages in docs/, and how a test runs them."""

import contextlib
import io
import re
import shlex
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from sae.cli import app

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")] + sorted((ROOT / "docs").glob("*.md"))

SMALL = {
    "train": ["--epochs", "1"],
    "search": ["--trials", "2", "--set", "train.epochs=1"],
    "bench": ["--batch", "1", "--repeats", "2", "--sessions", "1"],
}
"""Options put behind those of commands that would take long. A block that is followed by its output runs as it is."""

WITHIN_REACH = {"f1=0.8": "f1=0.4"}
"""Values in place of those that the stored study, trained for seconds, does not reach."""

FENCE = re.compile(
    r"^(?:<!-- (?P<when>not run|slow): (?P<reason>[^\n]+?) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
REDIRECTIONS = (">", ">>", "|")


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes:
        page: The file it stands in.
        line: The line of its opening fence.
        language: bash, python, yaml, or empty for output and drawings.
        text: What it holds.
        reason: Why it is not run, or only by the slow tests; None if every test of the page runs it.
        is_slow: Whether the slow tests run it.
        output: The text of the next block, if that has no language: what this one prints.
    """

    page: Path
    line: int
    language: str
    text: str
    reason: str | None
    is_slow: bool
    output: str | None

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def lines(self) -> list[list[str]]:
        """The words of each command, without comments, indentation and redirection."""
        found = [shlex.split(line, comments=True) for line in self.text.replace("\\\n", "").splitlines()]
        return [_before_redirection(words) for words in found if words]


def _before_redirection(words: list[str]) -> list[str]:
    ends = [index for index, word in enumerate(words) if word in REDIRECTIONS]
    return words[: ends[0]] if ends else words


def read_blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    matches = list(FENCE.finditer(text))
    blocks = []
    for match, following in zip_longest(matches, matches[1:]):
        prints = match["language"] == "bash" and following is not None and not following["language"]
        line = text.count("\n", 0, match.start("text"))
        output = following["text"] if prints and following else None
        is_slow = match["when"] == "slow"
        blocks.append(Block(page, line, match["language"], match["text"], match["reason"], is_slow, output))
    return blocks


def all_blocks(*languages: str) -> list[Block]:
    """Return the blocks of all pages that are in one of these languages."""
    return [block for page in PAGES for block in read_blocks(page) if block.language in languages]


def parse_command(words: list[str]) -> None:
    """Parse a `sae` command line as typer does, without running it; an unknown option or a bad value raises."""
    words = [re.sub(r"\$\w+", "0", word) for word in words[1:]]  # variables of a shell loop
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        name, *words = words
        assert name in command.commands, f"sae has no command {name}"
        command = command.commands[name]
    command.make_context(command.name, words)


def run_command(words: list[str]) -> str:
    """Run a `sae` command line in this process and return its standard output."""
    result = CliRunner().invoke(app, words[1:])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, f"{shlex.join(words)}: {result.stderr}"
    return result.stdout


def run_block(block: Block, names: dict[str, Any]) -> str:
    """Run a block in the present folder and return what it printed.

    Args:
        block: One of bash or python. `pip install` is skipped; anything else but `sae` is refused.
        names: Variables of the Python blocks of a page.
    """
    if block.language == "python":
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, str(block), "exec"), names)
        return printed.getvalue()
    outputs = []
    for words in block.lines:
        if words[:2] == ["pip", "install"]:
            continue
        assert words[0] == "sae", f"{block}: only sae commands can be run; mark the block with <!-- not run: reason -->"
        words = [WITHIN_REACH.get(word, word) for word in words]
        outputs.append(run_command(words + (SMALL.get(words[1], []) if block.output is None else [])))
    return "".join(outputs)
