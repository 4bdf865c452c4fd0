"""From a run folder to a file, and when nothing is written."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sae.deploy.export
import sae.deploy.model_folder
from sae.cli import app
from sae.core.errors import ConfigError, ModelError, OtherModelError, ParityError, RecordError
from sae.deploy.export import export
from sae.deploy.manifest import NAME, read_manifest
from sae.deploy.runtime import load
from sae.records import writing
from sae.records.evaluation import SPLITS
from sae.records.run import RunRecord
from sae.training.run import restore

pytestmark = pytest.mark.long


def test_the_manifest_says_what_was_trained_and_what_is_shipped(digits_run: Path, digits_model: Path) -> None:
    manifest = read_manifest(digits_model.parent / NAME)
    described = RunRecord(digits_run).read_evaluation().test.at(2)
    assert manifest.network.method == "sae"
    assert (manifest.network.num_inputs, manifest.network.max_exits, manifest.network.eval_exits) == (2, 2, 2)
    assert sum(member.weight for member in manifest.network.members) == pytest.approx(1.0)
    assert manifest.network.active == described.active
    assert manifest.cost.model_dump() == described.costs
    assert manifest.target.class_names == tuple("0123456789")
    assert manifest.input.shape == (1, 16, 16)
    assert manifest.parity.largest_difference <= 1e-5


def test_metrics_of_the_graph_are_those_of_the_run(digits_run: Path, digits_model: Path) -> None:
    manifest, evaluation = read_manifest(digits_model.parent / NAME), RunRecord(digits_run).read_evaluation()
    for split in SPLITS:
        for key in ("accuracy", "nll", "ece", "brier", "entropy", "disagreement", "aurc"):
            expected = evaluation.metrics(split, 2)[key]
            assert manifest.metrics[split][key] == pytest.approx(expected, abs=1e-4), key


def test_the_same_export_again_returns_what_is_there(digits_run: Path, digits_model: Path) -> None:
    before = digits_model.stat().st_mtime_ns
    assert export(digits_run, digits_model, 2) == read_manifest(digits_model.parent / NAME)
    assert digits_model.stat().st_mtime_ns == before


def test_by_default_the_number_of_exits_is_shipped_that_is_best_on_validation(digits_run: Path, tmp_path: Path) -> None:
    val = RunRecord(digits_run).read_evaluation().val
    best = min(val.readings, key=lambda reading: reading.metrics["nll"]).eval_exits
    assert export(digits_run, tmp_path / "model.onnx").network.eval_exits == best


def test_another_model_in_the_folder_is_refused(digits_run: Path, digits_model: Path) -> None:
    with pytest.raises(OtherModelError, match="another run, number of exits, precision or calibration"):
        export(digits_run, digits_model, eval_exits=1)
    with pytest.raises(OtherModelError, match=r"a folder holds one model, and .* already holds model.onnx"):
        export(digits_run, digits_model.with_name("other.onnx"))


def test_a_manifest_that_is_not_ours_is_never_overwritten(digits_run: Path, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"name": "a web app"}')
    with pytest.raises(ModelError, match="name another folder"):
        export(digits_run, tmp_path / "model.onnx", force=True)
    assert json.loads((tmp_path / NAME).read_text()) == {"name": "a web app"}


def test_a_file_that_nothing_describes_is_not_overwritten(digits_run: Path, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_text("mine")
    with pytest.raises(ModelError, match=r"exists without a manifest\.json"):
        export(digits_run, tmp_path / "model.onnx")


class Killed(BaseException):
    """Stands for a kill."""


@pytest.mark.parametrize("before", [0, 1])
def test_an_export_that_was_killed_between_its_files_is_finished_by_the_same_command(
    digits_run: Path, digits_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """Killed before the first or the second file."""
    out = tmp_path / "model.onnx"
    written: list[Path] = []

    def write_whole(path: Path, write: Callable[[Path], object]) -> None:
        if len(written) == before:
            raise Killed
        written.append(path)
        writing.write_whole(path, write)

    with monkeypatch.context() as patch:
        patch.setattr(sae.deploy.model_folder, "write_whole", write_whole)
        with pytest.raises(Killed):
            export(digits_run, out, 2)
    assert len(list(tmp_path.iterdir())) == before
    export(digits_run, out, 2)
    assert out.read_bytes() == digits_model.read_bytes()
    assert len(load(out).predict(np.zeros((1, 1, 16, 16), np.uint8))) == 1


@pytest.mark.parametrize(("out", "exits"), [("model.bin", None), ("model.onnx", 9)])
def test_a_mistake_leaves_nothing(digits_run: Path, tmp_path: Path, out: str, exits: int | None) -> None:
    with pytest.raises(ConfigError, match=r"ends in .onnx|number of exits must be in \[1, 2\]"):
        export(digits_run, tmp_path / "new" / out, exits)
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_cannot_hold_a_model_is_refused_before_the_run_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for out, message in (("model.txt", r"must be a file that ends in \.onnx"), ("file/m.onnx", "file is a file")):
        with pytest.raises(ConfigError, match=message):
            export(tmp_path / "no run here", tmp_path / out)
        refused = CliRunner().invoke(app, ["export", str(tmp_path / "no run here"), "--out", str(tmp_path / out)])
        assert refused.exit_code == 2
        assert re.search(message, " ".join(refused.output.split()))


def test_an_unfinished_run_is_refused(digits_run: Path, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes((digits_run / "config.yaml").read_bytes())
    with pytest.raises(RecordError, match="unfinished"):
        export(tmp_path, tmp_path / "model.onnx")


def test_a_graph_that_differs_is_not_written_and_an_older_one_stays(
    digits_run: Path, digits_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graph of 2 exits, where the one of another number is asked for."""
    monkeypatch.setattr(sae.deploy.export, "shipped_content", lambda *_: digits_model.read_bytes())
    (tmp_path / "model.onnx").write_text("older")
    with pytest.raises(ParityError, match=r"differs by .*: nothing was written") as caught:
        export(digits_run, tmp_path / "model.onnx", eval_exits=1, force=True)
    assert caught.value.exit_code == 3
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("model.onnx", "older")]


@pytest.mark.slow
def test_every_number_of_exits_can_be_shipped(digits_run: Path, tmp_path: Path) -> None:
    method, dataset = restore(RunRecord(digits_run))
    sizes = [export(digits_run, tmp_path / str(k) / "model.onnx", k).graph.bytes for k in method.exit_choices]
    assert sizes == sorted(sizes)
    predictions = load(tmp_path / "1").predict(dataset.test.inputs[:5])
    assert len(predictions) == 5


def test_a_frame_is_inside_the_graph(framed_model: Path) -> None:
    model = load(framed_model)
    assert model.manifest.input.shape == (3, 28, 28)
    assert model.manifest.input.frame == 2
    with np.load(framed_model.parents[1] / "data.npz") as data:
        prediction = model.predict(data["test_images"])
    assert len(prediction) == 12


def test_conformal_sets_are_tried_on_test_data(digits_model: Path, table_model: Path) -> None:
    for model, low, high in ((digits_model, 1, 10), (table_model, 1e-3, np.inf)):
        conformal = read_manifest(model.parent / NAME).conformal
        assert conformal is not None
        assert conformal.tried == 0.9
        assert conformal.test_coverage is not None
        assert conformal.test_size is not None
        assert 0.7 <= conformal.test_coverage <= 1.0
        assert low <= conformal.test_size <= high
