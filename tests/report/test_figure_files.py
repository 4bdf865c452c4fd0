from pathlib import Path

import altair as alt
from PIL import Image

from sae.report.content import Chart, Figure
from sae.report.figure_files import whole_figure, write_figures
from tests.reports import cells, line, scatter


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
