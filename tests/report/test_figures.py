from pathlib import Path

from PIL import Image

from sae.data.corruptions import CORRUPTIONS, SEVERITIES
from sae.report.figures import shift_heatmap


def test_a_heat_map_has_a_cell_for_every_set(tmp_path: Path) -> None:
    rows = [
        {"corruption": name, "severity": severity, "metrics": {"f1": 1 - 0.1 * severity}}
        for name in CORRUPTIONS
        for severity in SEVERITIES
    ]
    chart = shift_heatmap(rows, "f1", maximise=True, title="f1")
    assert len(chart.to_dict()["data"]["values"]) == 95
    chart.save(tmp_path / "map.png")
    with Image.open(tmp_path / "map.png") as image:
        assert image.width > 300
        assert len(image.convert("RGB").getcolors(1_000_000) or []) > 20  # something is drawn
