"""The wheel in real environments: the base install, and the one for reports. Skipped where packages cannot be had."""

import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from sae.deploy.export import export
from sae.training.run import train
from tests.builders import run_config

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
CLEAN = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the wheel."""

    folder: Path

    def run(self, program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment."""
        words = [str(self.folder / "bin" / program), *map(str, arguments)]
        return subprocess.run(words, capture_output=True, text=True, check=False, env=CLEAN, cwd=self.folder)

    def packages(self) -> set[str]:
        listed = self.run("python", "-m", "pip", "list", "--format", "freeze").stdout
        return {line.partition("==")[0].lower() for line in listed.splitlines()}


def pip(python: object, *arguments: object) -> None:
    words = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=CLEAN)
    if done.returncode:
        pytest.skip(f"the packages cannot be had here: {done.stderr[-300:]}")


@pytest.fixture(scope="module")
def install(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Environment]:
    """A function that makes an environment of the wheel with extras, e.g. `[report]`."""
    folder = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", folder, ROOT)
    [wheel] = folder.glob("saensemble-*.whl")

    def make(extras: str) -> Environment:
        place = tmp_path_factory.mktemp("environment")
        venv.create(place, with_pip=True)
        pip(place / "bin" / "python", "install", f"{wheel}{extras}")
        return Environment(place)

    return make


def test_the_base_install_predicts(install: Callable[[str], Environment], tmp_path: Path) -> None:
    model = tmp_path / "shipped" / "model.onnx"
    train(run_config(method={"name": "sae", "inputs": 2, "exits": 2}), tmp_path / "run")
    export(tmp_path / "run", model)
    np.savez(tmp_path / "x.npz", images=np.zeros((2, 16, 16), np.uint8))
    base = install("")
    assert base.packages().isdisjoint({"torch", "altair", "scipy", "pooch", "scikit-learn"})
    for arguments in (["--help"], ["data", "list"], ["pareto", GOLDEN / "study"], ["runs", GOLDEN / "study"]):
        done = base.run("sae", *arguments)
        assert done.returncode == 0, done.stderr
        assert done.stdout
    assert re.fullmatch(r"sae \d+\.\d+\.\d+\S*", base.run("sae", "--version").stdout.strip())
    done = base.run("sae", "predict", model, tmp_path / "x.npz", "--out", tmp_path / "p.csv", "--coverage", 0.9)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 3
    for arguments, extra in (
        (["report", GOLDEN / "study"], "report"),
        (["pareto", GOLDEN / "study", "--figure", "front.svg"], "report"),
        (["train", "--data", "digits", "--out", "run"], "train"),
        (["demo"], "train"),
        (["data", "fetch", "bloodmnist"], "train"),
    ):
        done = base.run("sae", *arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert f"pip install 'saensemble[{extra}]'" in done.stderr
    done = base.run("python", "-c", "import sae; sae.train")
    assert done.stderr.strip().endswith(
        "sae.train needs torch, which is not installed: pip install 'saensemble[train]'"
    )


def test_the_install_for_reports_writes_pages_and_figures_without_torch(
    install: Callable[[str], Environment], tmp_path: Path
) -> None:
    reports = install("[report]")
    assert "torch" not in reports.packages()
    page, figure = tmp_path / "report.html", tmp_path / "front.png"
    written = reports.run(
        "sae", "report", GOLDEN / "study", "--out", page, "--figures", tmp_path / "figures", "--tables", tmp_path
    )
    assert written.returncode == 0, written.stderr
    assert page.stat().st_size > 100_000
    assert len(list((tmp_path / "figures").glob("*.svg"))) == len(list((tmp_path / "figures").glob("*.png"))) > 5
    drawn = reports.run("sae", "pareto", GOLDEN / "study", "--figure", figure)
    assert drawn.returncode == 0, drawn.stderr
    assert figure.read_bytes().startswith(b"\x89PNG")
