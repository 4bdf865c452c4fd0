"""A stored run and study are read and reported as they were when they were written: formats, keys and numbers stay."""

import csv
import json
import math
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from typer.testing import CliRunner

import sae.cli.search
from sae.cli import app
from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from sae.report.build import report_of
from tests.search.studies import InlineExecutor

HERE = Path(__file__).parent
EXPECTED = HERE / "expected"
WRITE = "--write-golden" in sys.argv
"""Never pass it with a version that is newer than the folders."""
TRAIN = "--data digits --method sae --backbone vgg --depth 3 --inputs 2 --exits 2 --epochs 3 --set train.lr=3e-3"
COMMANDS = {
    "pareto": "pareto study",
    "pareto-limits": "pareto study --objectives nll,f1,flops,params --max flops=100000",
    "pareto-sae": "pareto study --method sae --objectives nll,cc_ece,shipped_flops",
    "pick": "pick study",
    "pick-f1": "pick study --prefer f1",
    "runs": "runs . --sort nll",
    "cost": "cost --method sae --backbone vgg --input-shape 1,16,16 --outputs 10 --inputs 2 --active 0,1,1,0,2",
    "train": f"train {TRAIN} --out run",
}
"""Commands that only read what is there."""
COMPUTED = {
    "search": "search --config study.yaml --out study",
    "evaluate": "evaluate run --calibrate",
    "evaluate-exits": "evaluate study/trials/sae/00002-f3ad97ea --split val --eval-exits 1",
    "export": "export study --out study/shipped/model.onnx",
    "train-again": f"train {TRAIN} --out again",
}
"""Commands that compute, whose numbers may differ in their last digits from one machine to another."""
ADDED = {"data.json", "network.json"}
"""Files that runs hold since; everything that was there before must stay."""
ADDED_STATUS = {"config_sha256", "weights_sha256", "files_sha256"}
"""Keys of `status.json` that are written since."""
ADDED_KEYS = {
    "members",
    "error_correlation",
    "called",
    "inputs_at_exit",
    "recommendation",
    "chosen_by",
    "baselines",
    "verdict",
    "still_improving",
    *(f"{name}{suffix}" for name in ("nll_scaled", "ece_scaled", "cc_ece_scaled") for suffix in ("", "@shift")),
    *(f"{name}{suffix}" for name in ("auroc", "average_precision", "top5_accuracy") for suffix in ("", "@shift")),
}
"""Keys of metrics, of readings, and of a receipt's rows, that are written since."""
ADDED_TABLES = {"front-shifted", "class-fronts-shifted"}
ADDED_COLUMNS = {"best": {"Pareto-optimal"}, "best-shifted": {"Pareto-optimal", "± over sets"}}
ADDED_EVERYWHERE = {"Exits used"}
ADDED_ROWS = {"receipt": (", this file", ", difference", "worth, ", "temperature", ", scaled", "as shipped")}
ADDED_FIGURES = {
    "parallel",
    "search-shifted",
    "confirmed-nll",
    "shifted-nll",
    "tried-val",
    "tried-test",
    "tried-shift",
}
"""What the page of a study shows since, in addition; everything that was there before must stay."""
OF_PREDICTIONS = {"abstaining", "classes", "segments", "confusion"}
"""Tables and figures that are there once a test has kept the predictions of the pick."""
COUNTED = {
    **dict.fromkeys(("accuracy", "error", "f1", "ece", "cc_ece", "cc_ece_uniform", "aurc"), 0.02),
    "diversity_disagreement": 0.02,
    "risk": 0.15,
    "count": 7,
}
"""Tolerances, on another processor, of what jumps when a sample crosses a border: 7 of 360 samples, or 1 of the first 7
of a risk-coverage curve. Smooth numbers, such as NLL and Brier score, keep their tolerance there."""
REPLACED = ("compared", "noise", "ensemble", "ms")
"""Keys of the receipt that differ: the rival of the stored one is an ensemble of one, which is no rival since, so that
it is measured again, beside another ensemble."""
PROSE = ("why", "error")
"""Texts for people, whose words may change."""


@pytest.fixture
def golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folders as working directory: paths in the outputs are relative to it."""
    for name in ("run", "study"):
        shutil.copytree(HERE / name, tmp_path / name)
    shutil.copy(HERE / "study.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", [*COMMANDS, *COMPUTED])
def test_commands_tell_the_same_of_it(golden: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sae.cli.search, "make_executor", lambda *_: InlineExecutor())  # saves starting workers
    result = CliRunner().invoke(app, [*(COMMANDS | COMPUTED)[name].split(), "--json"])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    if name == "export":
        assert printed["receipt"]["identity"]["compared"] == {"ensemble": "ensemble/0"}
    counted = {} if name != "train-again" or rounds_as_before(golden / "again") else COUNTED
    check(printed, EXPECTED / f"{name}.json", 2e-3 if name in COMPUTED else 1e-12, counted)


def test_a_run_is_written_in_the_same_files(golden: Path) -> None:
    CliRunner().invoke(app, [*COMPUTED["train-again"].split(), "--json"])
    again = golden / "again"
    before = {path.name for path in (HERE / "run").iterdir()}
    assert {path.name for path in again.iterdir()} - {".lock"} == before | ADDED
    assert (again / "config.yaml").read_bytes() == (HERE / "run" / "config.yaml").read_bytes()
    counted = {} if rounds_as_before(again) else COUNTED
    for name in ("metrics.json", "curves.json"):
        found, expected = (json.loads((folder / name).read_text()) for folder in (again, HERE / "run"))
        check_equal(found, expected, 2e-3, name, counted)
    ended, before = (json.loads((folder / "status.json").read_text()) for folder in (again, HERE / "run"))
    assert ended.keys() == before.keys() | ADDED_STATUS
    assert ended["state"] == before["state"]
    header, found = ((at / "history.csv").read_text().splitlines()[0].split(",") for at in (HERE / "run", again))
    assert [name for name in found if name.removeprefix("val_") not in ADDED_KEYS] == header


@pytest.mark.parametrize("folder", ["study", "run"])
def test_tables_of_the_report_hold_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    shutil.copytree(HERE / folder, tmp_path / folder)  # without the receipt that another test has written
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["report", folder, "--out", f"{folder}.html", "--tables", f"{folder}-tables"])
    assert result.exit_code == 0, result.output
    paths = sorted(Path(f"{folder}-tables").glob("*.csv"))
    assert {path.stem for path in paths} >= ADDED_TABLES or folder == "run"
    tables = {path.stem: numbers_in_table(path) for path in paths if path.stem not in ADDED_TABLES | OF_PREDICTIONS}
    check(tables, EXPECTED / f"tables-{folder}.json", 1e-9)


@pytest.mark.parametrize("folder", ["study", "run"])
def test_figures_of_the_report_show_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    shutil.copytree(HERE / folder, tmp_path / folder)  # without the predictions that another test may have kept
    monkeypatch.chdir(tmp_path)
    studies, runs = ([StudyRecord.open(Path("study"))], []) if folder == "study" else ([], [RunRecord(Path("run"))])
    drawn = {figure.name: figure.panels for figure in report_of(studies, runs).figures()}
    assert drawn.keys() >= ADDED_FIGURES or folder == "run"
    figures = {
        name: [shown_numbers(panel) for panel in panels]
        for name, panels in drawn.items()
        if name not in ADDED_FIGURES | OF_PREDICTIONS
    }
    expected = EXPECTED / f"figures-{folder}.json"
    order = json.loads(expected.read_text(encoding="utf-8"))  # figures may stand in another order on the page
    check({name: figures[name] for name in sorted(figures, key=list(order).index)}, expected, 1e-9)


def rounds_as_before(again: Path) -> bool:
    """Whether this processor rounds as the one that trained the stored run: the first epoch has the very same loss.

    Matrix products differ in their last bits between processors, whatever instructions they are told to use, and
    training amplifies that: this hardly trained network then classifies some samples differently.
    """
    losses = []
    for folder in (again, HERE / "run"):
        with (folder / "history.csv").open(encoding="utf-8", newline="") as file:
            losses.append(float(next(csv.DictReader(file))["loss"]))
    assert math.isclose(*losses, rel_tol=1e-5), losses
    return math.isclose(*losses, rel_tol=1e-12)


def numbers_in_table(path: Path) -> list[list[float | str | None]]:
    """Cells of a table without its header, numbers as such; of texts only whether there is one."""
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    old = [row for row in rows if not any(text in row[0] for text in ADDED_ROWS.get(path.stem, ()))]
    if path.stem == "receipt":  # what were texts of several numbers are cells of one number each since
        return [_as_before(dict(zip(header, row, strict=True))) for row in old]
    kept = [
        index for index, name in enumerate(header) if name not in {*ADDED_EVERYWHERE, *ADDED_COLUMNS.get(path.stem, ())}
    ]
    return [[number_of(row[index]) for index in kept] for row in old]


def _as_before(row: dict[str, str]) -> list[float | str | None]:
    """A row of a receipt when a deviation or a multiple made a cell a text."""
    beside = (" std", " multiple")
    whole = [name for name in row if not name.endswith(beside)]
    return ["text" if any(row.get(name + end) for end in beside) else number_of(row[name]) for name in whole]


def number_of(text: str) -> float | str | None:
    try:
        return float(text)
    except ValueError:
        return "text" if text else None


def shown_numbers(panel: Any) -> list[float]:
    """All numbers of a panel's data, sorted, so that neither order nor the names of columns matter."""
    values = (value for row in rows_in(panel.to_dict()) for value in row.values())
    return sorted(float(f"{v:.9g}") for v in values if isinstance(v, int | float) and not isinstance(v, bool))


def rows_in(chart: Any) -> Iterator[dict[str, Any]]:
    """The rows of every data set of a chart, wherever in it they stand."""
    if isinstance(chart, dict):
        datasets = [chart["data"].get("values", [])] if isinstance(chart.get("data"), dict) else []
        for rows in (*datasets, *chart.get("datasets", {}).values()):
            yield from rows
        for key, part in chart.items():
            if key not in ("data", "datasets"):
                yield from rows_in(part)
    elif isinstance(chart, list):
        for part in chart:
            yield from rows_in(part)


def check(found: Any, path: Path, tolerance: float, counted: Mapping[str, float] = MappingProxyType({})) -> None:
    if WRITE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    check_equal(found, json.loads(path.read_text(encoding="utf-8")), tolerance, path.stem, counted)


def check_equal(
    found: Any, expected: Any, tolerance: float, where: str, counted: Mapping[str, float] = MappingProxyType({})
) -> None:
    """Same keys, same texts, same numbers, down to the last leaf; what is counted has tolerances of its own."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), where
        assert [key for key in found if key in expected or key not in ADDED_KEYS] == list(expected), where
        for key in expected:
            if key not in (*PROSE, *(REPLACED if where.startswith("export.receipt") else ())):
                check_equal(found[key], expected[key], tolerance, f"{where}.{key}", counted)
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for index, item in enumerate(expected):
            check_equal(found[index], item, tolerance, f"{where}[{index}]", counted)
    elif name_in(where) in counted and expected is not None:
        assert abs(found - expected) <= counted[name_in(where)], f"{where}: {found} != {expected}"
    elif isinstance(expected, float):
        assert math.isclose(found, expected, rel_tol=tolerance, abs_tol=tolerance), f"{where}: {found} != {expected}"
    else:
        assert found == expected, where


def name_in(where: str) -> str:
    """The last key of a place, `count` of `curves.json.val.reliability.count[1]`."""
    return where.rpartition(".")[2].partition("[")[0]
