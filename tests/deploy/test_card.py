"""The model card beside an exported model: what it says, who can read it, and whose README.md it leaves alone."""

import html
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from sae.cli import app
from sae.core.errors import ModelWarning
from sae.deploy.card import card_text, write_card
from sae.deploy.export import export
from sae.deploy.manifest import NAME, Manifest, read_manifest
from sae.records.evaluation import ShiftEvaluation
from sae.records.receipt import ReceiptBaseline, read_receipt
from sae.records.shipped import CARD, is_own_card

pytestmark = pytest.mark.long

GOLDEN = Path(__file__).parents[1] / "golden" / "study" / "shipped"


def front_matter(text: str) -> dict[str, Any]:
    [_, front, _] = text.split("---\n", 2)
    return dict(yaml.safe_load(front))


def manifest_of(model: Path) -> Manifest:
    return read_manifest(model.parent / NAME)


@pytest.fixture
def folder(digits_model: Path, tmp_path: Path) -> Path:
    """A copy of a model's folder to change."""
    shutil.copytree(digits_model.parent, tmp_path / "shipped")
    return tmp_path / "shipped"


def test_the_card_of_an_export_names_task_data_and_every_metric(digits_model: Path) -> None:
    text, manifest = (digits_model.parent / CARD).read_text(), manifest_of(digits_model)
    assert is_own_card(text)
    front = front_matter(text)
    assert (front["library_name"], front["pipeline_tag"]) == ("saensemble", "image-classification")
    assert "license" not in front, "it is the user's to choose"
    [result] = front["model-index"][0]["results"]
    assert result["dataset"]["name"] == "digits"
    assert {metric["type"]: metric["value"] for metric in result["metrics"]} == manifest.metrics["test"]
    assert f"{manifest.cost.shipped_flops:,}" in text
    assert f"| {manifest.metrics['test']['nll']:.4f} | {manifest.metrics['val']['nll']:.4f} |" in text
    assert "on corrupted or shifted samples was not measured" in text


@pytest.mark.slow
def test_a_hub_reads_the_card(digits_model: Path, table_model: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    for model, task in ((digits_model, "image-classification"), (table_model, "tabular-regression")):
        card = hub.ModelCard.load(model.parent / CARD)
        results = card.data.eval_results
        assert {result.metric_type: result.metric_value for result in results} == manifest_of(model).metrics["test"]
        assert {result.task_type for result in results} == {task}
        assert card.data.library_name == "saensemble"


@pytest.mark.parametrize("name", ["digits_model", "table_model"])
def test_the_code_of_the_card_runs_in_its_folder(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Path = request.getfixturevalue(name)
    monkeypatch.chdir(model.parent)
    [code] = re.findall(r"```python\n(.*?)```", (model.parent / CARD).read_text(), re.DOTALL)
    shape, dtype = manifest_of(model).input.shape, manifest_of(model).input.dtype
    names: dict[str, Any] = {"x": np.zeros((2, *shape), dtype)}
    exec(code, names)
    assert len(names["prediction"]) == 2


def test_a_readme_of_the_users_own_is_left_and_the_command_says_so(digits_run: Path, folder: Path) -> None:
    (folder / CARD).write_text("# My project\n")
    done = CliRunner().invoke(
        app, ["export", str(digits_run), "--eval-exits", "2", "--out", str(folder / "model.onnx")]
    )
    assert done.exit_code == 0
    assert (folder / CARD).read_text() == "# My project\n"
    assert (
        f"warning: {folder / CARD} is not a model card of `sae export`, or was edited, so it is not replaced"
        in done.stderr
    )


def test_an_edited_card_is_left_and_another_card_of_ours_is_replaced(digits_model: Path, folder: Path) -> None:
    card, manifest = folder / CARD, manifest_of(digits_model)
    licensed = card.read_text().replace("library_name", "license: mit\nlibrary_name", 1)
    card.write_text(licensed)
    with pytest.warns(ModelWarning, match="was edited, so it is not replaced: move it away"):
        write_card(folder, manifest)
    assert card.read_text() == licensed
    card.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_card(folder, manifest.model_copy(update={"metrics": {}}))
        assert "Not measured" in card.read_text()
        write_card(folder, manifest)
    assert card.read_text() == (digits_model.parent / CARD).read_text()


def test_a_readme_that_is_no_text_is_left(digits_model: Path, folder: Path) -> None:
    (folder / CARD).write_bytes(b"\xff\xfe")
    with pytest.warns(ModelWarning, match="is not replaced"):
        write_card(folder, manifest_of(digits_model))
    assert (folder / CARD).read_bytes() == b"\xff\xfe"


def test_the_same_export_again_does_not_touch_the_card(digits_run: Path, digits_model: Path) -> None:
    before = (digits_model.parent / CARD).stat().st_mtime_ns
    export(digits_run, digits_model, 2)
    assert (digits_model.parent / CARD).stat().st_mtime_ns == before


def test_corrupted_test_images_have_a_column(digits_model: Path) -> None:
    readings: list[dict[str, Any]] = [
        {"eval_exits": k, "metrics": {"nll": 2.5 - k}, "std_over_sets": {}, "by_set": []} for k in (1, 2)
    ]
    shift = ShiftEvaluation.model_validate({"exits": 2, "sets": 95, "by_exits": readings})
    text, manifest = card_text(manifest_of(digits_model), shift=shift), manifest_of(digits_model)
    test, val = (manifest.metrics[split]["nll"] for split in ("test", "val"))
    assert f"| NLL | {test:.4f} | {val:.4f} | 0.5000 |" in text
    assert "means over 95 corrupted versions" in text
    assert "was not measured" not in text


def test_the_pick_of_a_study_stands_beside_its_rivals(tmp_path: Path) -> None:
    manifest, receipt = read_manifest(GOLDEN / NAME), read_receipt(GOLDEN / "receipt.json")
    shutil.copy(GOLDEN / "receipt.json", tmp_path)
    write_card(tmp_path, manifest)
    text = (tmp_path / CARD).read_text()
    assert receipt.why in text
    for row in receipt.rows.values():
        assert f"| {row.settings} | {row.metrics['nll']:.4f} | {row.shipped_flops:,} |" in text
    assert "Simple baselines" not in text
    better = ReceiptBaseline(name="gradient boosting", val={"nll": 0.1}, test={"nll": 0.2})
    beaten = receipt.model_copy(update={"baselines": (better,), "verdict": "Gradient boosting is better here."})
    text = card_text(manifest, beaten)
    assert text.index("Gradient boosting is better here.") < text.index(receipt.why)
    assert "Simple baselines (scikit-learn, CPU), NLL on test: this network " in text
    assert "gradient boosting 0.2." in text
    other = manifest.model_copy(update={"graph": manifest.graph.model_copy(update={"sha256": "0" * 64})})
    write_card(tmp_path, other)
    assert receipt.why not in (tmp_path / CARD).read_text(), "a receipt of another model is not used"


def test_a_network_from_a_loop_of_ones_own_has_a_card_without_numbers(digits_model: Path) -> None:
    manifest = manifest_of(digits_model)
    run = manifest.run.model_copy(update={"data": None})
    text = card_text(manifest.model_copy(update={"metrics": {}, "conformal": None, "run": run}))
    assert "model-index" not in front_matter(text)
    assert "its training data are not recorded" in text


NASTY = (
    "x`<img src=y onerror=alert(1)>`z",
    "a | b",
    "two\n\nlines\n---\nlicense: mine",
    "```\n<script>alert(1)</script>",
    "[click](javascript:alert(1))",
    "<!-- ",
    "*bold*",
    "&lt;b&gt;",
    "]]>",
    "plain",
)


def test_names_of_others_are_text_in_the_card_whatever_they_hold(digits_model: Path) -> None:
    markdown_it = pytest.importorskip("markdown_it")
    manifest, first = manifest_of(digits_model), NASTY[0]
    forged = manifest.model_copy(
        update={
            "target": manifest.target.model_copy(update={"class_names": NASTY}),
            "run": manifest.run.model_copy(update={"data": NASTY[2] + first, "weights_sha256": first}),
            "graph": manifest.graph.model_copy(update={"file": "```\n" + first}),
            "network": manifest.network.model_copy(update={"backbone": first, "method": first}),
            "metrics": {"test": {**manifest.metrics["test"], first: 1.0}, "val": manifest.metrics["val"]},
            "versions": {first: first},
        }
    )
    text = card_text(forged)
    assert front_matter(text)["model-index"][0]["results"][0]["dataset"]["name"] == NASTY[2] + first
    front, body = text.removeprefix("---\n").split("---\n\n# ", 1)
    assert not set("<>") & set(front)
    shown = markdown_it.MarkdownIt("gfm-like", {"linkify": False}).render(body)
    honest = markdown_it.MarkdownIt("gfm-like", {"linkify": False}).render(
        card_text(manifest).removeprefix("---\n").split("---\n\n# ", 1)[1]
    )
    kinds = [set(re.findall(r"<(/?\w+)", page)) for page in (shown, honest)]
    assert kinds[0] <= kinds[1]
    assert html.unescape(shown).count(first) >= 5
    outside_code = re.sub(r"^```\w+\n.*?^```$", "", body, flags=re.DOTALL | re.MULTILINE)
    assert not set("<>") & set(outside_code)
