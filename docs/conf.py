"""The documentation site: `make docs` executes the gallery, `make docs-quick` does not."""

import re
import sys
from pathlib import Path
from typing import TypeVar

import numpy.typing
from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

from sae.core.version import __version__  # noqa: E402

numpy.typing.ArrayLike = TypeVar("ArrayLike")  # type: ignore[misc]  # shown by its name, not as the union that it is

project, author = "SAE", "The SAE developers"
copyright = "The SAE developers, Apache-2.0"  # noqa: A001
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "glossary_links",
    "command_reference",
]
exclude_patterns = ["_build", "gallery/*.ipynb", "gallery/*.py", "gallery/*.zip"]
nitpicky = False
smartquotes = False  # quotes and hyphens of a command are copied as they are

html_theme = "furo"
html_title = f"SAE {version}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
napoleon_include_init_with_doc = False

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "capture_repr": (),  # what a cell prints, not the value of its last line
    "min_reported_time": 10_000,  # times of somebody's machine say nothing on a page
    "write_computation_times": False,
}

ROOT = HERE.parent
WHOLE = {"contributing": "CONTRIBUTING.md", "changelog": "CHANGELOG.md", "security": "SECURITY.md"}
"""Pages of the site that are files of the repository."""
PAGES = {file: f"{page}.md" for page, file in WHOLE.items()} | {"README.md": "index.md"}
LINK = re.compile(r"\[([^\]]*)\]\(([\w./-]+)(#[^)]*)?\)")


def link_inside(text: str, folder: Path) -> str:
    """Turn links to files of the repository into links to pages of the site, or into the name of the file.

    Args:
        text: Of a page.
        folder: Where its links start.
    """

    def replaced(match: re.Match[str]) -> str:
        title, anchor = match[1], match[3] or ""
        path = (folder / match[2]).resolve()
        name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else match[2]
        if path.is_relative_to(HERE) and not path.is_dir():  # a folder is no page, but may have the name of one
            return f"[{title}]({path.relative_to(HERE)}{anchor})"
        if name in PAGES:
            return f"[{title}]({PAGES[name]}{anchor})"
        return f"`{name}`" if title == name else f"{title} (`{name}`)"

    return LINK.sub(replaced, text)


def read_page(_: object, name: str, source: list[str]) -> None:
    """Read a page, or the file of the repository that it stands for, with its links changed."""
    if name in WHOLE:
        source[0] = link_inside((ROOT / WHOLE[name]).read_text(encoding="utf-8"), ROOT)
    elif (HERE / f"{name}.md").exists():
        source[0] = link_inside(source[0], HERE)


def as_rst(_: object, __: str, ___: str, ____: object, _____: object, lines: list[str]) -> None:
    """Write a docstring as reStructuredText: ours have `code` in single backticks, and stars are stars."""
    for place, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[place] = re.sub(r"`([^`]+)`", r"``\1``", line).replace("*", r"\*")


def setup(app: Sphinx) -> None:
    """Read pages with their links changed."""
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", as_rst, priority=400)  # before napoleon
