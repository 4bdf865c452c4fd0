"""The page of commands lists every command and every option, and builds without a warning."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import typer

from sae.cli import app
from tests.docs.pages import ROOT

pytest.importorskip("sphinx")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")  # Sphinx's
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))

from command_reference import PAGE, as_markdown, reference  # type: ignore[import-not-found]  # noqa: E402
from conf import smartquotes  # type: ignore[import-not-found]  # noqa: E402


def every_command(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Return all commands of the parser, groups among them, with what one types for each."""
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from every_command(each, f"{path} {name}")


COMMANDS = dict(every_command(typer.main.get_command(app), "sae"))


@pytest.fixture(scope="module")
def parts() -> dict[str, str]:
    """The text about each command; before the first heading, that about `sae` itself."""
    pieces = re.split(r"^#+ (sae.*)$", reference(), flags=re.MULTILINE)
    return {"sae": pieces[0], **dict(zip(pieces[1::2], pieces[2::2], strict=True))}


def test_every_command_has_its_part(parts: dict[str, str]) -> None:
    assert set(parts) == set(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS)
def test_a_part_has_every_option_and_argument_of_its_command(path: str, parts: dict[str, str]) -> None:
    names = re.findall(r"^\| `(.+?)` \|", parts[path], re.MULTILINE)
    shown = {word.rstrip(".") for name in names for word in re.split(r"[ ,/]+", name)}
    for parameter in COMMANDS[path].params:
        given = parameter.opts if parameter.param_type_name == "option" else [parameter.name]
        assert set(given) <= shown, f"{path} must list {given}"
    assert {"-h", "--help"} <= shown


def test_the_page_shows_the_defaults_of_settings(parts: dict[str, str]) -> None:
    assert "| `--inputs <int>` |" in parts["sae train"] or "| `--inputs INTEGER` |" in parts["sae train"]
    assert "N, inputs per pass of sae; default: 2 |" in parts["sae train"]
    assert "{" not in re.sub(r"`[^`]*`|\\\{", "", reference())  # a placeholder that was not filled


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("see --grid", "see `--grid`"),
        ("for `sae data list`", "for `sae data list`"),
        ("a|b, mc_dropout [x>=1]", r"a\|b, mc\_dropout \[x\>=1\]"),
    ],
)
def test_signs_of_a_help_are_signs_on_the_page(text: str, wanted: str) -> None:
    assert as_markdown(text) == wanted


def build(source: Path, out: Path) -> str:
    """Build the page in a process of its own, a warning being an error, and return its text."""
    settings = {
        "extensions": "myst_parser,command_reference",
        "root_doc": PAGE,
        "myst_heading_anchors": 4,
        "html_theme": "basic",
        "smartquotes": int(smartquotes),
    }
    given = [word for key, value in settings.items() for word in ("-D", f"{key}={value}")]
    words = [sys.executable, "-m", "sphinx", "--fail-on-warning", "-q", "-C", *given, str(source), str(out)]
    paths = os.pathsep.join(map(str, (DOCS, ROOT / "src")))
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return unescape(re.sub(r"<[^>]*>", "", (out / f"{PAGE}.html").read_text(encoding="utf-8")))


@pytest.mark.long
def test_the_page_builds_without_a_warning_and_shows_what_the_help_says(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    text = (DOCS / f"{PAGE}.md").read_text(encoding="utf-8")
    (source / f"{PAGE}.md").write_text(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text), encoding="utf-8")
    page = build(source, out)
    assert "choose the members of a trained network" in " ".join(page.split()).lower()
    assert "columns of your table not to use, e.g. id,name or '\"height, cm\",id'" in page  # quotes stay as they are
    assert "how --resize treats other proportions" in page  # and so do the hyphens of an option
    (out / f"{PAGE}.html").unlink()
    assert build(source, out) == page  # written again although its file has not changed: the commands may have
