"""LaTeX tables, compiled by LaTeX itself."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sae.report.build import report_of
from sae.report.files import to_latex, write_tables
from tests.study_stages import whole_study

DOCUMENT = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage{booktabs,graphicx}
\begin{document}
%s
\end{document}
"""


def test_no_character_of_a_table_is_left_that_latex_does_not_know(tmp_path: Path) -> None:
    report = report_of([whole_study(tmp_path / "study").record])
    left = {character for table in report.tables() for character in to_latex(table) if not character.isascii()}
    assert left <= set("“”")


@pytest.mark.slow
def test_the_tables_of_a_report_compile_within_the_width_of_an_article(tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is needed: apt install texlive-latex-recommended")
    report = report_of([whole_study(tmp_path / "study").record])
    write_tables(report.tables(), tmp_path)
    names = [table.name for table in report.tables()]
    assert {"receipt", "front", "confirmed", "best", "ranks", "trials"} <= set(names)
    inputs = "\n".join(rf"\input{{{name}}}\clearpage" for name in names)
    (tmp_path / "main.tex").write_text(DOCUMENT % inputs, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    log = (tmp_path / "main.log").read_text(encoding="utf-8", errors="replace")
    wide = [float(points) for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide\)", log)]
    assert max(wide, default=0.0) < 1.0
    assert "Float too large" not in log
