"""The wheel and the source distribution in real environments. Skipped where packages cannot be had."""

import os
import subprocess
import venv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from sae.core.version import __version__
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

    def run(self, program: str, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, in its own folder or in another."""
        words = [str(self.folder / "bin" / program), *map(str, arguments)]
        return subprocess.run(words, capture_output=True, text=True, check=False, env=CLEAN, cwd=cwd or self.folder)

    def packages(self) -> set[str]:
        listed = self.run("python", "-m", "pip", "list", "--format", "freeze").stdout
        return {line.partition("==")[0].lower() for line in listed.splitlines()}


def pip(python: object, *arguments: object) -> None:
    words = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=CLEAN)
    if done.returncode:
        pytest.skip(f"the packages cannot be had here: {done.stderr[-300:]}")


@dataclass(frozen=True)
class Distributions:
    """What is published, built as for a release."""

    wheel: Path
    source: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """The wheel and the source distribution of this tree."""
    folder = tmp_path_factory.mktemp("distributions")
    tools = new_environment(tmp_path_factory, "hatchling")
    for kind in ("wheel", "sdist"):
        done = tools.run("hatchling", "build", "-t", kind, "-d", folder, cwd=ROOT)
        assert done.returncode == 0, done.stderr
    [wheel], [source] = folder.glob("saensemble-*.whl"), folder.glob("saensemble-*.tar.gz")
    return Distributions(wheel, source)


def new_environment(factory: pytest.TempPathFactory, *requirements: object) -> Environment:
    """Make a virtual environment with nothing but these packages and what they need."""
    place = factory.mktemp("environment")
    venv.create(place, with_pip=True)
    pip(place / "bin" / "python", "install", "--no-compile", *requirements)
    return Environment(place)


@pytest.fixture(scope="module")
def base(built: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel without extras."""
    return new_environment(tmp_path_factory, built.wheel)


def test_the_base_install_predicts(base: Environment, tmp_path: Path) -> None:
    model = tmp_path / "shipped" / "model.onnx"
    train(run_config(method={"name": "sae", "inputs": 2, "exits": 2}), tmp_path / "run")
    export(tmp_path / "run", model)
    np.savez(tmp_path / "x.npz", images=np.zeros((2, 16, 16), np.uint8))
    assert base.packages().isdisjoint({"torch", "altair", "scipy", "pooch", "scikit-learn"})
    for arguments in (["--help"], ["data", "list"], ["pareto", GOLDEN / "study"], ["runs", GOLDEN / "study"]):
        done = base.run("sae", *arguments)
        assert done.returncode == 0, done.stderr
        assert done.stdout
    assert base.run("sae", "--version").stdout == f"sae {__version__}\n"
    assert base.run("python", "-m", "sae", "--version").stdout == f"sae {__version__}\n"
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


def test_the_source_distribution_writes_pages_and_figures_without_torch(
    built: Distributions, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    reports = new_environment(tmp_path_factory, f"{built.source}[report]")
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


def test_the_extra_of_training_is_added_as_messages_advise(base: Environment, built: Distributions) -> None:
    pip(base.folder / "bin" / "python", "install", "--no-compile", f"{built.wheel}[train]")
    for arguments in (
        ["train", "--data", "digits", "--backbone", "fc", "--inputs", 2, "--exits", 3, "--epochs", 1, "--out", "run"],
        ["export", "run", "--eval-exits", 2, "--out", "shipped/model.onnx"],
    ):
        done = base.run("sae", *arguments)
        assert done.returncode == 0, done.stderr
    card = (base.folder / "shipped" / "README.md").read_text(encoding="utf-8")
    assert f"sae {__version__}" in card
    example = """
import numpy as np, sae
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
probs = sae.load("shipped/model.onnx").predict(np.zeros((2, 1, 16, 16), np.uint8)).probs
print(probs.shape, sae.SAEClassifier(epochs=1).fit(X[:200], y[:200]).predict_proba(X[:5]).shape)
"""
    done = base.run("python", "-c", example)
    assert done.stdout == "(2, 10) (5, 10)\n", done.stderr
