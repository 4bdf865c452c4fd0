import csv
import io
import re
from pathlib import Path

import altair as alt
import pytest
from PIL import Image

from sae.core.errors import RecordError
from sae.core.table import Cell, Column, Table
from sae.report.content import Chart, Figure
from sae.report.files import to_csv, to_latex, to_markdown, whole_figure, write_figures, write_tables
from tests.reports import cells, line, scatter

NASTY = r"a|b & 5% _x_ #1 $y$ {z} \ ~ ^ *"
TABLE = Table(
    "nasty",
    "A title & more",
    "50% of\nit",
    (Column("Name|s"), Column("F1", "↑", 3), Column("FLOPs", "↓"), Column("K′")),
    (
        (Cell(NASTY), Cell(0.83841, 0.01811, strong=True), Cell(210944), Cell(2)),
        (Cell("b"), Cell(-0.5), Cell(None), Cell(None)),
    ),
)


def figure(*panels: Chart) -> Figure:
    return Figure("search-quality", "What was found", "How to read it.", panels)


def test_each_figure_is_an_svg_and_a_png_of_the_same_shape(tmp_path: Path) -> None:
    write_figures([figure(scatter(), line())], tmp_path / "figures")
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
        "search-quality.png",
        "search-quality.svg",
    ]
    svg = (tmp_path / "figures/search-quality.svg").read_text(encoding="utf-8")
    assert "What was found" in svg
    assert "How to read it." in svg
    assert "var(" not in svg
    width = int(svg.split('width="')[1].split('"')[0])
    with Image.open(tmp_path / "figures/search-quality.png") as png:
        assert abs(png.width - 2 * width) <= 2


def test_panels_that_tell_the_same_apart_share_a_legend() -> None:
    resolve = whole_figure(figure(scatter(), line(), scatter())).to_dict()["resolve"]["scale"]
    assert resolve == {"color": "shared", "shape": "shared"}


def test_panels_with_scales_of_their_own_keep_them() -> None:
    resolve = whole_figure(figure(cells(), cells())).to_dict()["resolve"]["scale"]
    assert resolve == {"color": "independent", "shape": "independent"}
    other = scatter()
    other.layer[0].encoding.color.scale = alt.Scale(domain=["a"], range=["black"])
    resolve = whole_figure(figure(scatter(), other)).to_dict()["resolve"]["scale"]
    assert resolve == {"color": "independent", "shape": "shared"}


def test_more_than_three_panels_take_another_row() -> None:
    chart = whole_figure(figure(*[line()] * 4)).to_dict()
    assert chart["columns"] == 3
    assert len(chart["concat"]) == 4


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_markdown_has_as_many_cells_as_columns_whatever_is_in_them() -> None:
    lines = [line for line in to_markdown(TABLE).splitlines() if line.startswith("|")]
    assert [len(cells_of(line)) for line in lines] == [4, 4, 4, 4]
    assert cells_of(lines[0]) == [r"Name\|s", "F1 ↑", "FLOPs ↓", "K′"]
    assert cells_of(lines[1]) == [":--", "--:", "--:", "--:"]
    assert cells_of(lines[2])[1:] == ["**0.838 ± 0.018**", "210,944", "2"]
    assert cells_of(lines[3]) == ["b", "-0.500", "–", "–"]


def test_markdown_text_stays_what_it_is() -> None:
    first = cells_of(to_markdown(TABLE).splitlines()[4])[0]
    assert re.sub(r"\\(.)", r"\1", first) == NASTY
    assert all(rf"\{character}" in first for character in r"|_#*\~")
    assert to_markdown(TABLE).endswith("\n50% of it\n")


def test_a_cell_of_csv_holds_one_value() -> None:
    rows = [
        ("F1 ↑", "0.875 ± 0.013", "0.9"),
        ("MFLOPs ↓", "5.843", "1,200.5 (8.76 ×)"),
        ("runs", "4 on new seeds", "–"),
    ]
    cells = tuple(tuple(map(Cell, row)) for row in rows)
    table = Table("receipt", "Receipt", "", tuple(map(Column, ("Measure", "the pick", "rival"))), cells)
    assert list(csv.reader(io.StringIO(to_csv(table)))) == [
        ["Measure", "the pick", "the pick std", "rival", "rival multiple"],
        ["F1 ↑", "0.875", "0.013", "0.9", ""],
        ["MFLOPs ↓", "5.843", "", "1200.5", "8.76"],
        ["runs", "4 on new seeds", "", "–", ""],
    ]


def test_csv_is_read_back_as_plain_numbers_with_deviations_apart() -> None:
    rows = list(csv.reader(io.StringIO(to_csv(TABLE))))
    assert rows == [
        ["Name|s", "F1", "F1 std", "FLOPs", "K′"],
        [NASTY, "0.83841", "0.01811", "210944", "2"],
        ["b", "-0.5", "", "", ""],
    ]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=1+2", "'=1+2"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-x", "'-x"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("-0.5", "-0.5"),
        ("sae/1", "sae/1"),
        ("a=b", "a=b"),
    ],
)
def test_a_text_in_csv_is_never_a_formula(text: str, written: str) -> None:
    rows = list(csv.reader(io.StringIO(to_csv(Table("t", "t", "c", (Column(text),), ((Cell(text),),))))))
    assert rows == [[written], [written]]


@pytest.mark.parametrize("text", ["[1]", "*"])
def test_a_latex_row_is_no_argument_of_what_is_before_it(text: str) -> None:
    table = Table("t", "t", "c", (Column(text), Column(text)), ((Cell(text), Cell(text)),))
    rows = [line for line in to_latex(table).splitlines() if line.endswith(r"\\")]
    assert rows == [rf"{{}}{text} & {text} \\"] * 2


def test_latex_escapes_what_it_would_read_otherwise() -> None:
    text = to_latex(TABLE)
    expected = (
        r"a\textbar{}b \& 5\% \_x\_ \#1 \$y\$ \{z\} \textbackslash{} \textasciitilde{} \textasciicircum{} *"
        r" & \textbf{0.838} $\pm$ 0.018 & 210,944 & 2 \\"
    )
    assert expected in text.splitlines()
    assert r"b & $-$0.500 & -- & -- \\" in text.splitlines()
    assert r"Name\textbar{}s & F1 $\uparrow$ & FLOPs $\downarrow$ & K$'$ \\" in text.splitlines()
    assert r"\caption{A title \& more. 50\% of it}" in text
    assert r"\begin{tabular}{lrrr}" in text
    assert [line for line in text.splitlines() if line.endswith("rule")] == [r"\toprule", r"\midrule", r"\bottomrule"]


def test_latex_rows_have_as_many_cells_as_columns() -> None:
    rows = [line for line in to_latex(TABLE).splitlines() if line.endswith(r"\\")]
    assert [len(re.split(r"(?<!\\)&", row)) for row in rows] == [4, 4, 4]


def test_a_table_without_rows_is_a_table() -> None:
    empty = Table("empty", "t", "c", (Column("a"), Column("b", "↑", 2)), ())
    assert to_csv(empty) == "a,b\n"
    assert "| a | b ↑ |" in to_markdown(empty)
    assert r"\begin{tabular}{ll}" in to_latex(empty)


def test_every_table_is_written_in_every_format(tmp_path: Path) -> None:
    written = write_tables([TABLE], tmp_path / "deep" / "tables")
    assert [path.name for path in written] == ["nasty.md", "nasty.csv", "nasty.tex"]
    assert sorted(path.name for path in (tmp_path / "deep" / "tables").iterdir()) == [
        "nasty.csv",
        "nasty.md",
        "nasty.tex",
    ]
    assert written[0].read_text(encoding="utf-8") == to_markdown(TABLE)
    assert written[1].read_bytes() == to_csv(TABLE).encode()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="tables must be written to a folder"):
        write_tables([TABLE], tmp_path / "file" / "tables")
