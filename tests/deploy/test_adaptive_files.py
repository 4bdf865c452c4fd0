"""Segments as files: exported, described, loaded, refused."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sae.cli import app
from sae.core.errors import ConfigError, ModelError
from sae.deploy.export import export
from sae.deploy.manifest import DEFAULT_TARGET, NAME, ExitTarget, read_manifest
from sae.deploy.runtime import ClassPrediction, Model, load, load_adaptive
from sae.deploy.session import SegmentSessions
from sae.records.shipped import CARD
from tests.deploy.test_runtime import WITHOUT_TORCH

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def adaptive_model(digits_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("adaptive") / "model.onnx"
    export(digits_run, out, adaptive=DEFAULT_TARGET)
    return out


@pytest.fixture
def copied(adaptive_model: Path, tmp_path: Path) -> Path:
    shutil.copytree(adaptive_model.parent, tmp_path / "copy")
    return tmp_path / "copy" / "model.onnx"


def rows_of(model: Model) -> tuple[int, ...]:
    assert isinstance(model.graph, SegmentSessions)
    return model.graph.rows


def predicted(model: Model, x: np.ndarray) -> ClassPrediction:
    prediction = model.predict(x)
    assert isinstance(prediction, ClassPrediction)
    return prediction


def test_the_manifest_describes_adaptive_exits(adaptive_model: Path) -> None:
    manifest = read_manifest(adaptive_model.parent / NAME)
    part = manifest.adaptive
    assert part is not None
    assert part.target == DEFAULT_TARGET
    assert [segment.file for segment in part.stages] == ["model.stage1.onnx", "model.stage2.onnx"]
    assert [segment.exit for segment in part.stages] == [1, 2]
    assert part.stages[-1].flops == manifest.cost.shipped_flops
    assert part.accuracy_kept["val"] >= 0.995
    assert all(sum(shares) == pytest.approx(1.0) for shares in part.fractions.values())
    assert part.mean_flops["val"] == pytest.approx(
        sum(f * s.flops for f, s in zip(part.fractions["val"], part.stages, strict=True)) / part.stages[-1].flops
    )
    assert part.time_ratio == pytest.approx(part.timing.adaptive / part.timing.plain)
    assert ("use the plain graph" in part.verdict) != part.pays
    assert len(part.timing.stages) == 2


def test_no_segment_keeps_data_elsewhere(adaptive_model: Path) -> None:
    names = {path.name for path in adaptive_model.parent.iterdir()}
    assert names == {"model.onnx", "model.stage1.onnx", "model.stage2.onnx", NAME, CARD}


def test_a_threshold_above_one_predicts_what_the_plain_model_does(adaptive_model: Path, pixels: np.ndarray) -> None:
    never, plain = (
        predicted(load_adaptive(adaptive_model, threshold=1.1), pixels),
        predicted(load(adaptive_model), pixels),
    )
    for name in ("probs", "entropy", "disagreement"):
        np.testing.assert_allclose(getattr(never, name), getattr(plain, name), atol=1e-6)
    assert never.exits is not None
    assert never.exits.tolist() == [2, 2, 2]
    assert plain.exits is None


def test_a_threshold_of_zero_leaves_at_the_first_exit(adaptive_model: Path, pixels: np.ndarray) -> None:
    model = load_adaptive(adaptive_model, threshold=0.0)
    prediction = predicted(model, pixels)
    assert prediction.exits is not None
    assert prediction.exits.tolist() == [1, 1, 1]
    assert rows_of(model) == (3, 0)
    part = model.manifest.adaptive
    assert part is not None
    assert model.mean_flops(prediction) == pytest.approx(part.stages[0].flops / part.stages[1].flops)


def test_one_sample_and_none(adaptive_model: Path, pixels: np.ndarray) -> None:
    model = load_adaptive(adaptive_model.parent)
    assert len(model.predict(pixels[:1])) == 1
    none = predicted(model, pixels[:0])
    assert none.probs.shape == (0, 10)
    assert model.mean_flops(none) == 1.0


def test_coverage_is_that_of_the_adaptive_predictions(adaptive_model: Path) -> None:
    model = load_adaptive(adaptive_model)
    part = model.manifest.adaptive
    assert part is not None
    assert model.threshold(0.9) == part.calibration.threshold(0.9)
    assert model.manifest.conformal is not None
    assert load(adaptive_model).threshold(0.9) == model.manifest.conformal.calibration.threshold(0.9)


def test_a_segment_that_is_missing_or_another_is_refused(copied: Path) -> None:
    first, second = (copied.with_name(f"model.stage{number}.onnx") for number in (1, 2))
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.stage1\.onnx must be the graph that"):
        load_adaptive(copied)
    second.unlink()
    first.write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.stage2\.onnx must be readable"):
        load_adaptive(copied)
    load(copied)  # the plain graph needs none of them


def test_a_model_without_segments_says_how_to_get_them(digits_model: Path) -> None:
    with pytest.raises(ModelError, match="lists none: export it with --adaptive"):
        load_adaptive(digits_model)


def test_a_negative_threshold_is_refused(adaptive_model: Path) -> None:
    with pytest.raises(ConfigError, match="threshold must be a probability"):
        load_adaptive(adaptive_model, threshold=-0.1)


@pytest.mark.slow
def test_what_is_there_is_returned_and_another_target_is_written(digits_run: Path, copied: Path) -> None:
    before = copied.with_name("model.stage1.onnx").stat().st_mtime_ns
    assert export(digits_run, copied, adaptive=DEFAULT_TARGET) == export(digits_run, copied)
    assert copied.with_name("model.stage1.onnx").stat().st_mtime_ns == before
    other = export(digits_run, copied, adaptive=ExitTarget(kind="mean_flops", value=1.0))
    assert other.adaptive is not None
    assert other.adaptive.target.kind == "mean_flops"
    assert read_manifest(copied.parent / NAME) == other


@pytest.mark.slow
def test_segments_of_a_replaced_model_are_removed(digits_run: Path, copied: Path) -> None:
    export(digits_run, copied, force=True)
    assert {path.name for path in copied.parent.iterdir()} == {"model.onnx", NAME, CARD}


def test_predicting_adaptively_needs_no_torch(adaptive_model: Path, tmp_path: Path, pixels: np.ndarray) -> None:
    np.savez(tmp_path / "x.npz", images=pixels)
    arguments = ["sae", "predict", str(adaptive_model), str(tmp_path / "x.npz"), "--adaptive", "--json"]
    arguments += ["--out", str(tmp_path / "p.csv")]
    code = WITHOUT_TORCH + f"sys.argv = {arguments!r}\nfrom sae.cli import main\nmain()\n"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert 0 < json.loads(result.stdout)["mean_flops"] <= 1
    with (tmp_path / "p.csv").open() as file:
        assert {row["exit"] for row in csv.DictReader(file)} <= {"1", "2"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--keep-accuracy", "0.9"], "are targets of --adaptive: add --adaptive"),
        (["--adaptive", "--keep-accuracy", "0.9", "--mean-flops", "0.5"], "not both"),
        (["--adaptive", "--keep-accuracy", "2"], "must be a share"),
    ],
)
def test_wrong_targets_end_with_2_and_leave_nothing(
    digits_run: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    result = CliRunner().invoke(app, ["export", str(digits_run), "--out", str(tmp_path / "m.onnx"), *arguments])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
    assert not list(tmp_path.iterdir())


def test_values_are_refused_by_the_command(table_model: Path, tmp_path: Path) -> None:
    run = table_model.parent.parent / "run"
    result = CliRunner().invoke(app, ["export", str(run), "--out", str(tmp_path / "m.onnx"), "--adaptive"])
    assert result.exit_code == 2
    assert "for classification" in " ".join(result.output.split())


@pytest.mark.slow
def test_the_curve_is_a_table_and_a_picture(digits_run: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["adaptive", str(digits_run), "--out", str(tmp_path / "curve")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "curve" / "adaptive.png").stat().st_size > 10_000
    with (tmp_path / "curve" / "adaptive.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["kind"] for row in rows].count("calibrated") == 1
    never, plain = rows[-1], rows[0]
    for key in ("accuracy", "nll", "ece", "mean_flops"):
        assert float(never[key]) == pytest.approx(float(plain[key]), abs=1e-5)
    flops = [float(row["mean_flops"]) for row in rows[2:]]
    assert flops == sorted(flops)
