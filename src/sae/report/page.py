"""A report as one HTML file that needs nothing else: it opens from a disk, asks no network, and prints."""

import re
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from sae.core.table import Table
from sae.records.folder import write_whole
from sae.report.content import Figure, Lead, Note, Report, Section
from sae.report.html_figure import figure_data, render_figure
from sae.report.html_table import render_table
from sae.report.html_text import prose
from sae.report.theme import palette_css

BEFORE_PAINT = """(() => {
  const root = document.documentElement;
  root.classList.add("script");
  let kept = null;
  try { kept = localStorage.getItem("sae-theme"); } catch (error) { /* files may have no storage */ }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = kept || (dark ? "dark" : "light");
})();"""
"""Chooses the theme before anything is seen."""
WORDS = "words"
"""Where the list of words is on the page."""


def write_page(report: Report, path: Path) -> None:
    """Write a report's page as a whole or not at all."""
    text = render_page(report)
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def render_page(report: Report) -> str:
    """A report as HTML, with all that it needs inside."""
    return Template(_asset("page.html")).substitute(
        title=escape(report.title),
        style=f"{palette_css()}\n{_asset('page.css')}",
        before=BEFORE_PAINT,
        facts="".join(f"<li>{escape(fact)}</li>" for fact in report.facts),
        lead=_render_lead(report.lead, has_words=bool(report.words)),
        words=_render_words(report.words),
        contents=_render_contents(report.sections),
        sections="\n".join(_render_section(section) for section in report.sections),
        figures=figure_data(report.figures()),
        vega=_vega(),
        script=_asset("page.js"),
    )


def _render_lead(lead: Lead, has_words: bool) -> str:
    reasons = "".join(f"<li>{prose(reason)}</li>" for reason in lead.reasons)
    parts = [
        f'<p class="sentence">{prose(lead.sentence)}</p>',
        f'<ul class="reasons">{reasons}</ul>' if reasons else "",
        f'<p class="to-words"><a href="#{WORDS}">Words on this page</a></p>' if has_words else "",
        render_table(lead.receipt) if lead.receipt else "",
        *(_render_command(command, purpose) for command, purpose in lead.commands),
    ]
    return "\n".join(part for part in parts if part)


def _render_words(words: tuple[tuple[str, str], ...]) -> str:
    """A list that is folded away; a link to what is inside opens it."""
    if not words:
        return ""
    listed = "\n".join(f"<dt>{escape(word)}</dt><dd>{prose(meaning)}</dd>" for word, meaning in words)
    return f"""<section class="words">
<details>
<summary>Words on this page</summary>
<dl id="{WORDS}">
{listed}
</dl>
</details>
</section>"""


def _render_command(command: str, purpose: str) -> str:
    """A command in a box; its words are kept whole, so that `--json` is not broken after a dash."""
    words = re.sub(r"\S+", lambda word: f"<span>{escape(word[0])}</span>", command)
    return f"""<div class="command">
<p>{prose(purpose)}</p>
<div class="box"><pre><code>{words}</code></pre>
<button type="button" class="copy needs-script">Copy</button></div>
</div>"""


def _render_contents(sections: tuple[Section, ...]) -> str:
    links = (f'<li><a href="#{escape(section.name)}">{escape(section.title)}</a></li>' for section in sections)
    return f"""<nav aria-label="Contents">
<ul><li><a href="#lead">Recommendation</a></li>{"".join(links)}</ul>
</nav>"""


def _render_section(section: Section) -> str:
    parts = "\n".join(_render_part(part) for part in section.parts)
    return f"""<section id="{escape(section.name)}">
<h2>{escape(section.title)}</h2>
<p class="intro">{prose(section.intro)}</p>
{parts}
</section>"""


def _render_part(part: Figure | Table | Note) -> str:
    match part:
        case Figure():
            return render_figure(part)
        case Table():
            return render_table(part)
        case Note():
            return f'<p class="note">{prose(part.text)}</p>'


def _asset(name: str) -> str:
    return files("sae.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _vega() -> str:
    """What draws charts in a browser; it leaves `vegaEmbed` in the window."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
