"""A method, a backbone and a metric of another package, through train, search, pareto, report and export."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
SAE = "from sae.cli import main; main()"
ALL = """
import json, sys
from typer.testing import CliRunner
from sae.cli import app
done = [CliRunner().invoke(app, command) for command in json.loads(sys.argv[1])]
print(json.dumps([[result.exit_code, result.stdout, result.stderr] for result in done]))
"""
"""Several commands in one process, as torch takes long to import."""
OBJECTIVES = "nll,sure,flops"
SMALL = ("--data", "digits", "--backbone", "tower", "--epochs", "1")
COMMANDS: dict[str, tuple[str, ...]] = {
    "train": ("train", *SMALL, "--method", "two_heads", "--set", "method.heads=2", "--out", "run", "--json"),
    "search": (
        *("search", *SMALL, "--method", "two_heads,sae,standard", "--objectives", OBJECTIVES, "--trials", "2"),
        *("--set", "spaces.two_heads={backbone: {depth: 1}}", "--set", "spaces.standard={backbone: {depth: 1}}"),
        *("--workers", "1", "--out", "study", "--json"),
    ),
    "pareto": ("pareto", "study", "--figure", "front.svg", "--json"),
    "runs": ("runs", ".", "--sort", "sure", "--json"),
    "report": ("report", "study", "run", "--out", "study.html", "--tables", "tables", "--json"),
    "show": ("show", "run", "--out", "run.svg", "--json"),
    "export": ("export", "study", "--out", "shipped/model.onnx", "--json"),
    "export-run": ("export", "run", "--out", "alone/model.onnx", "--json"),
}


def run_python(code: str, *arguments: str, folder: Path, paths: tuple[Path, ...] = ()) -> tuple[int, str, str]:
    """A Python process whose own packages are on `paths`, beside those that are installed."""
    found = [*map(str, paths), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(found), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    return done.returncode, done.stdout, done.stderr


def announce(folder: Path, **modules: str) -> Path:
    """A folder that says of a package what an installer would: which entry points it has."""
    info = folder / "toy-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    names = {"sae.methods": "two_heads", "sae.backbones": "tower", "sae.metrics": "sure"}
    lines = (f"[{group}]\n{name} = {modules.get(name, 'toy_plugin')}\n" for group, name in names.items())
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module", params=["by entry point", pytest.param("by import", marks=pytest.mark.slow)])
def printed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each command has printed, and the folder that it was typed in."""
    folder = tmp_path_factory.mktemp("plugin")
    is_import = request.param == "by import"
    code = f"import toy_plugin\n{ALL}" if is_import else ALL
    paths = (HERE,) if is_import else (HERE, announce(tmp_path_factory.mktemp("site")))
    found: dict[str, Any] = {"folder": folder}
    results = run_all(code, list(COMMANDS.values()), folder, paths)
    for name, (status, out, error) in zip(COMMANDS, results, strict=True):
        assert status == 0, f"{name}: {error}"
        found[name] = json.loads(out)
    return found


def run_all(
    code: str, commands: Sequence[Sequence[str]], folder: Path, paths: tuple[Path, ...] = ()
) -> list[tuple[int, str, str]]:
    """The exit code and both outputs of each command."""
    status, out, error = run_python(code, json.dumps(commands), folder=folder, paths=paths)
    assert status == 0, error
    return [(code, out, error) for code, out, error in json.loads(out)]


def test_it_is_trained_and_measured(printed: dict[str, Any]) -> None:
    assert 0 <= printed["train"]["metrics"]["sure"] <= 1
    assert (printed["folder"] / "run" / "config.yaml").read_text().count("heads: 2") == 1


def test_it_is_searched_over_its_own_space_and_depth(printed: dict[str, Any]) -> None:
    study = (printed["folder"] / "study" / "study.yaml").read_text()
    assert re.search(r"heads:\s+int:\s+- 1\s+- 2", study)
    assert re.search(r"exits:\s+int:\s+- 1\s+- 3", study)  # K of SAE up to the depth of the tower
    trials = printed["pareto"]["trials"]
    assert {method: counts["finished"] for method, counts in trials.items()} == {
        "two_heads": 2,
        "sae": 2,
        "standard": 1,
    }


def test_its_metric_is_an_objective_and_sorts_runs(printed: dict[str, Any]) -> None:
    assert printed["pareto"]["objectives"] == OBJECTIVES.split(",")
    values = [run["metrics"]["sure"] for run in printed["runs"]["runs"]]
    assert len(values) == 6
    assert values == sorted(values, reverse=True)


def test_it_is_in_the_figures_and_tables_of_the_report(printed: dict[str, Any]) -> None:
    assert "sure share" in (printed["folder"] / "front.svg").read_text()
    tables = [Path(name).read_text() for name in sorted((printed["folder"] / "tables").glob("*.csv"))]
    assert any("two heads" in text and "H=2" in text for text in tables)
    assert any("sure share" in text for text in tables)
    page = (printed["folder"] / "study.html").read_text()
    assert "two heads" in page
    assert "sure share" in page


def test_it_is_drawn_with_the_parts_that_it_names(printed: dict[str, Any]) -> None:
    shown = printed["show"]
    assert [part["name"] for part in shown["parts"]] == ["backbone", "readout", "heads", "rest"]
    assert sum(part["params"] for part in shown["parts"]) == shown["params"]
    drawn = (printed["folder"] / "run.svg").read_text()
    assert all(f">{name}<" in drawn for name in ("backbone", "heads", "rest", "member", "1", "2", "0.50"))


def test_it_is_exported(printed: dict[str, Any]) -> None:
    assert printed["export-run"]["metrics"]["test"]["sure"] == pytest.approx(printed["train"]["metrics"]["sure"])
    assert set(printed["export"]["receipt"]["rows"]) <= {"pick", "standard"}


def test_without_the_package_its_folders_are_refused_in_one_sentence(printed: dict[str, Any]) -> None:
    sentences = {
        "run": "backbone 'tower', which is not installed; known: fc, vgg, resnet, vit, conv1d, "
        "efficientnet-lite0, efficientnet-lite1, efficientnet-lite2",
        "study": "method 'two_heads', which is not installed; "
        "known: sae, standard, ensemble, mc_dropout, batch_ensemble, packed",
    }
    commands = ["evaluate run", "report run --out x.html", "export run --out o/m.onnx", "pareto study", "pick study"]
    commands.append("report study --out x.html")
    results = run_all(ALL, [command.split() for command in commands], printed["folder"])
    for command, (status, _, error) in zip(commands, results, strict=True):
        folder = command.split()[1]
        assert (status, error) == (2, f"error: {folder} was made with {sentences[folder]}\n"), command


def test_help_lists_its_names_without_importing_it(tmp_path: Path) -> None:
    paths = (HERE, announce(tmp_path))
    code = f"import atexit, sys; atexit.register(lambda: print('toy_plugin' in sys.modules)); {SAE}"
    _, out, _ = run_python(code, "train", "--help", folder=tmp_path, paths=paths)
    words = " ".join(out.replace("│", " ").split())
    assert "sae, standard, ensemble, mc_dropout, batch_ensemble, packed or two_heads" in words
    assert "vgg, resnet, vit, conv1d, tower, " in words
    assert words.endswith("False")


def test_a_package_that_cannot_be_imported_is_left_out_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "broken_plugin.py").write_text("raise ValueError('no licence')")
    paths = (HERE, tmp_path, announce(tmp_path, two_heads="broken_plugin"))
    shape = ("--input-shape", "8", "--outputs", "2")
    status, out, error = run_python(SAE, "cost", "--backbone", "tower", *shape, folder=tmp_path, paths=paths)
    assert (status, error) == (0, "")
    assert "tower" in out
    broken = ("cost", "--method", "two_heads", "--backbone", "fc", *shape)
    status, _, error = run_python(SAE, *broken, folder=tmp_path, paths=paths)
    assert status == 2
    reason = "because broken_plugin cannot be loaded: ValueError: no licence"
    assert f"the method two_heads of the package toy 1.0 is left out, {reason}" in error
    assert "error: method.name must be one of sae, " in error


@pytest.mark.slow
def test_the_conformance_suite_runs_on_it(tmp_path: Path) -> None:
    code = "import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))"
    root = HERE.parent.parent
    chosen = ("-q", "-p", "toy_plugin", "-p", "no:cacheprovider", "tests/conformance", "-k", "two_heads or tower")
    status, out, error = run_python(code, *chosen, folder=root, paths=(HERE,))
    assert status == 0, out + error
    assert re.search(r"\d{2} passed", out)
