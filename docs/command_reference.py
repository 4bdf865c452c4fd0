"""The page of commands and options, written from the commands themselves each time that the site is built."""

import re
from collections.abc import Iterator

import typer
from sphinx.application import Sphinx
from typer.core import TyperCommand, TyperGroup

from sae.cli import app as commands
from sae.cli.help import first_paragraph, help_sections, shown_commands

PAGE = "command_line"
CODE = re.compile(r"(`[^`]*`)")
OPTION = re.compile(r"(?<![\w-])(--[a-z][\w-]*)")
SPECIAL = re.compile(r"([\\|*_<>\[\]{}$#])")


def as_markdown(text: str) -> str:
    """Return the text of a help as Markdown: its code and its options as code, and signs as signs."""
    marked = CODE.split(OPTION.sub(r"`\1`", text) if "`" not in text else text)
    return "".join(part if part.startswith("`") else SPECIAL.sub(r"\\\1", part) for part in marked)


def table_of(title: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    """Yield the lines of a table of names with their explanations."""
    yield f"| {title} | |"
    yield "|---|---|"
    for name, text in rows:
        yield f"| {as_code(name)} | {as_markdown(' '.join(text.split()))} |"
    yield ""


def as_code(name: str) -> str:
    """Return an option with its value as code; a bar would end the cell of a table."""
    return "`" + name.replace("|", r"\|") + "`"


def describe(command: TyperCommand | TyperGroup, ctx: typer.Context, depth: int) -> Iterator[str]:
    """Yield the lines about a command and the commands below it.

    Args:
        command: The command, or a group of them.
        ctx: Its context, whose path is its name on the command line.
        depth: Level of its heading; at 1 the page has it already.
    """
    if depth > 1:
        yield f"{'#' * depth} {ctx.command_path}"
        yield ""
        for paragraph in (command.help or "").strip().split("\n\n"):
            yield as_markdown(" ".join(paragraph.split()))
            yield ""
        yield f"`{ctx.command_path} {' '.join(command.collect_usage_pieces(ctx))}`"
        yield ""
    below = list(shown_commands(command, ctx)) if isinstance(command, TyperGroup) else []
    if below:
        yield from table_of("Commands", [(f"{ctx.command_path} {name}", first_paragraph(each)) for name, each in below])
    for title, rows in help_sections(command, ctx):
        yield from table_of(title, rows)
    for name, each in below:
        yield from describe(each, each.context_class(each, info_name=name, parent=ctx), depth + 1)


def reference() -> str:
    """Return the whole reference in Markdown."""
    root = typer.main.get_command(commands)
    assert isinstance(root, TyperGroup)
    return "\n".join(describe(root, root.context_class(root, info_name="sae", **root.context_settings), 1))


def write_reference(_: object, name: str, source: list[str]) -> None:
    """Put the reference below the text of its page."""
    if name == PAGE:
        source[0] += "\n" + reference()


def always_read(*_: object) -> list[str]:
    """Return the page, which must be read again although its file has not changed: the commands may have."""
    return [PAGE]


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the reference when its page is read."""
    app.connect("source-read", write_reference)
    app.connect("env-get-outdated", always_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
