"""`sae report` as a user meets it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from tests.cli.test_cli import sae
from tests.results import small_config, write_run
from tests.studies import StudyBuilder, small_study

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_study(tmp_path_factory.mktemp("report") / "my study").record.path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    metrics = [{"f1": 0.8, "cc_ece": 0.1, "nll": 0.5}] * 3
    return write_run(tmp_path_factory.mktemp("report") / "run", small_config(), metrics).path


def test_a_page_is_written_and_its_recommendation_printed(study: Path, tmp_path: Path) -> None:
    code, out, error = sae("report", study, "--out", tmp_path / "page.html", "--title", "For Ann")
    assert (code, error) == (0, "")
    told = " ".join(out.split())
    assert "So far sae/0 leads: one network with several inputs and some of its exits (N=2 K=2 W=1 D=3)" in told
    assert out.splitlines()[-1] == f"report:  {tmp_path / 'page.html'}"
    assert "<title>For Ann</title>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_figures_and_tables_are_written_and_listed(study: Path, tmp_path: Path) -> None:
    folders: list[str | Path] = ["--figures", tmp_path / "figures", "--tables", tmp_path / "tables"]
    code, out, error = sae("report", study, "--out", tmp_path / "page.html", *folders, "--json")
    assert code == 0, error
    written = json.loads(out)
    assert set(written) == {"report", "recommendation", "figures", "tables"}
    assert "So far sae/0 leads: " in written["recommendation"]
    assert sorted(written["figures"]) == sorted(str(path) for path in (tmp_path / "figures").iterdir())
    assert sorted(written["tables"]) == sorted(str(path) for path in (tmp_path / "tables").iterdir())
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".svg", ".png"}
    assert {path.suffix for path in (tmp_path / "tables").iterdir()} == {".md", ".csv", ".tex"}
    assert {"search.svg", "grid-test.png"} <= {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"receipt.md", "front.tex", "trials.csv"} <= {path.name for path in (tmp_path / "tables").iterdir()}


def test_the_files_are_counted_where_no_json_is_asked_for(run: Path, tmp_path: Path) -> None:
    code, out, _ = sae("report", run, "--out", tmp_path / "page.html", "--tables", tmp_path / "tables")
    assert code == 0
    assert out.splitlines()[0] == "1 configuration from 1 run."
    assert out.splitlines()[-1] == f"tables:  3 files in {tmp_path / 'tables'}"


def test_studies_and_runs_go_on_one_page(study: Path, run: Path, tmp_path: Path) -> None:
    other = StudyBuilder(tmp_path / "other").record.path
    assert sae("report", study, other, run, "--out", tmp_path / "page.html")[0] == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(
        f'id="{name}"' in text for name in ("across-data-sets", "my-study-search", "other-search", "runs-the-runs")
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{tmp} --out {tmp}/x.html", "is not a study or run folder: it has no study.yaml and no config.yaml"),
        ("{tmp}/absent --out {tmp}/x.html", "`sae runs"),
        ("{study} --out {tmp}/x.pdf", "--out must name a file that ends in .html"),
        ("{study} --out {tmp}/folder.html", "--out must name a file that ends in .html"),
        ("{study} --out {tmp}", "--out must name a file that ends in .html"),
        ("{study} --out {tmp}/absent/x.html", "the folder of --out must exist"),
        ("{study} --out {tmp}/x.html --figures {tmp}/file", "--figures must name a folder that can be written to"),
        ("{study} --out {tmp}/x.html --tables {tmp}/file", "--tables must name a folder that can be written to"),
        ("{study} --out {tmp}/x.html --tables {tmp}/file/below", "--tables must name a folder that can be written to"),
    ],
)
def test_a_mistake_costs_one_sentence_and_leaves_no_page(
    arguments: str, message: str, study: Path, tmp_path: Path
) -> None:
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "file").write_text("x")
    filled = [word.format(tmp=tmp_path, study=study) for word in arguments.split()]
    code, out, error = sae("report", *filled)
    assert (code, out) == (2, "")
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not (tmp_path / "x.html").exists()


@pytest.mark.parametrize("content", ["", "{", "[1]", "id: 3\n"])
def test_settings_that_cannot_be_read_are_named(content: str, study: Path, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / StudyRecord.CONFIG).write_text(content)
    code, _, error = sae("report", study, tmp_path / "broken", "--out", tmp_path / "page.html")
    assert code == 2
    assert "study.yaml" in error
    assert "Traceback" not in error


def test_a_run_whose_settings_cannot_be_read_is_left_out(run: Path, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / RunRecord.CONFIG).write_text("{")
    code, out, error = sae("report", run, tmp_path / "broken", "--out", tmp_path / "page.html")
    assert code == 0, error
    assert out.startswith("1 configuration from 2 runs.")
    assert "Left out, because unfinished, failed or damaged: 1 run." in (tmp_path / "page.html").read_text(
        encoding="utf-8"
    )


def test_reporting_loads_no_torch(study: Path, tmp_path: Path) -> None:
    arguments = ["report", str(study), "--out", str(tmp_path / "x.html"), "--tables", str(tmp_path / "tables")]
    code = (
        "import sys; from sae.cli import app; "
        f"app({arguments!r}, standalone_mode=False); assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x.html").exists()
