"""Trimmed runs: what is chosen, what it costs, and what every command then does with it."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from sae.analysis.network_plan import network_plan
from sae.cli import app
from sae.core.errors import ConfigError, RecordError
from sae.core.predictive import Categorical, aggregate
from sae.deploy.export import export
from sae.measure.cost import measure_cost, measure_shipped_cost
from sae.records.network import Trimming
from sae.records.run import RunRecord
from sae.report.build import report_of
from sae.report.content import Note
from sae.training.evaluator import member_outputs, predictive_at
from sae.training.run import preparation, restore, train
from sae.training.run_evaluation import evaluate
from sae.training.trimming import trim
from tests.builders import run_config

pytestmark = pytest.mark.long

METHOD = {"name": "sae", "inputs": 3, "exits": 2}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = run_config(method=METHOD, backbone={"name": "fc", "depth": 3}, train={"epochs": 3})
    return train(config, tmp_path_factory.mktemp("runs") / "digits").path


@pytest.fixture(scope="module")
def diabetes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = run_config(data={"name": "diabetes"}, method=METHOD, backbone={"name": "fc", "depth": 3})
    return train(config, tmp_path_factory.mktemp("runs") / "diabetes").path


@pytest.fixture(scope="module")
def limit(digits: Path) -> float:
    """The FLOPs of the learnt exits at K′ = 1."""
    return float(RunRecord(digits).read_evaluation().val.at(1).flops)


@pytest.fixture(scope="module")
def trimmed(digits: Path, limit: float, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trimming]:
    out = tmp_path_factory.mktemp("runs") / "trimmed"
    return out, trim(digits, out, {"flops": limit})


def test_the_chosen_members_replace_the_learnt_ones(trimmed: tuple[Path, Trimming]) -> None:
    out, found = trimmed
    method, _ = restore(RunRecord.open(out))
    weights = method.member_weights().view(3, 3)
    expected = torch.zeros(3, 3)
    for member in found.members:
        assert member.input is not None
        expected[member.input - 1, member.exit - 1] = member.weight
    torch.testing.assert_close(weights, expected)
    assert weights.sum().item() == pytest.approx(1)
    assert RunRecord(out).read_config().method.model_dump()["trim"] == found.limits


def test_the_record_holds_what_the_pruned_network_costs_and_predicts(trimmed: tuple[Path, Trimming]) -> None:
    out, found = trimmed
    method, dataset = restore(RunRecord.open(out))
    pruned, reading = method.pruned().eval(), RunRecord(out).read_evaluation().test.chosen
    cost, shipped = measure_cost(pruned, dataset.spec.shape), measure_shipped_cost(pruned, dataset.spec.shape)
    assert (reading.flops, reading.shipped_flops) == (cost.flops, shipped.flops)
    assert reading.to_json() == found.chosen.test.to_json()
    assert reading.flops <= found.limits["flops"]
    x = preparation(dataset, "cpu")(dataset.test.inputs[:20])
    with torch.inference_mode():
        direct = aggregate(method.task, pruned(x), pruned.weights)
    masked = predictive_at(method, member_outputs(method, [x]), method.exits)
    assert isinstance(direct, Categorical)
    assert isinstance(masked, Categorical)
    torch.testing.assert_close(direct.probs, masked.probs, rtol=1e-4, atol=1e-6)


def test_every_step_names_the_exact_cost_of_all_members_so_far(digits: Path, trimmed: tuple[Path, Trimming]) -> None:
    out, found = trimmed
    method, dataset = restore(RunRecord.open(out))
    weights = torch.zeros(3, 3)
    for step in found.steps:
        weights[step.input - 1, step.exit - 1] += 1
        method.choose(weights / weights.sum())
        assert step.costs["flops"] == measure_cost(method.pruned(), dataset.spec.shape).flops
        assert step.costs["shipped_flops"] == measure_shipped_cost(method.pruned(), dataset.spec.shape).flops
    assert found.steps[-1].nll == pytest.approx(found.chosen.val.metrics["nll"], rel=1e-5)


def test_the_choice_is_no_worse_on_validation_than_the_learnt_exits_of_this_cost(
    digits: Path, trimmed: tuple[Path, Trimming]
) -> None:
    learnt = RunRecord(digits).read_evaluation().val.at(1)
    assert trimmed[1].chosen.val.metrics["nll"] <= learnt.metrics["nll"]
    assert trimmed[1].val_samples == 359


def test_the_curve_has_the_learnt_exits_and_choices_at_other_limits(trimmed: tuple[Path, Trimming]) -> None:
    out, found = trimmed
    assert [point.eval_exits for point in found.points if point.kind == "theta"] == [1, 2, 3]
    greedy = found.of_kind("greedy")
    assert len(greedy) >= 3
    assert all(point.limit is not None and point.val.flops <= point.limit for point in greedy)
    nll = [point.val.metrics["nll"] for point in sorted(greedy, key=lambda point: point.limit or 0)]
    assert nll == sorted(nll, reverse=True)
    with (out / RunRecord.TRIM_ROWS).open() as file:
        rows = list(csv.DictReader(file))
    assert [row["kind"] for row in rows].count("chosen") == 1
    assert {"val_nll", "test_nll", "val_cc_ece", "test_cc_ece", "flops", "members", "inputs"} <= set(rows[0])


def test_inputs_without_a_member_are_dropped(digits: Path, tmp_path: Path) -> None:
    learnt = RunRecord(digits).read_evaluation().val.at(1).flops
    found = trim(digits, tmp_path / "one", {"flops": learnt / 2})
    assert found.chosen.inputs == 1
    method, _ = restore(RunRecord.open(tmp_path / "one"))
    assert method.pruned().num_inputs == 1


def test_the_same_call_again_returns_what_is_there(digits: Path, limit: float, trimmed: tuple[Path, Trimming]) -> None:
    out, found = trimmed
    before = (out / RunRecord.MODEL).stat().st_mtime_ns
    assert trim(digits, out, {"flops": limit}).to_json() == found.to_json()
    assert (out / RunRecord.MODEL).stat().st_mtime_ns == before


def test_a_trimmed_run_is_evaluated_again_to_the_same_numbers(trimmed: tuple[Path, Trimming]) -> None:
    out, found = trimmed
    assert evaluate(out).metrics["nll"] == pytest.approx(found.chosen.test.metrics["nll"], rel=1e-6)
    with pytest.raises(ConfigError, match="chosen members only, got K′ = 1: leave --eval-exits out"):
        evaluate(out, eval_exits=1)


def test_a_trimmed_run_is_exported_with_its_members_and_their_weights(
    trimmed: tuple[Path, Trimming], tmp_path: Path
) -> None:
    out, found = trimmed
    manifest = export(out, tmp_path / "model.onnx")
    assert manifest.parity.largest_difference < 1e-4
    weights = {(member.input, member.exit): member.weight for member in manifest.network.members}
    assert weights == pytest.approx({(item.input, item.exit): item.weight for item in found.members})
    assert manifest.cost.shipped_flops == found.chosen.val.shipped_flops
    assert manifest.metrics["test"]["nll"] == pytest.approx(found.chosen.test.metrics["nll"], rel=1e-4)


def test_every_command_takes_a_trimmed_run(digits: Path, tmp_path: Path) -> None:
    out = tmp_path / "trimmed"
    runner = CliRunner()
    commands = [
        ["trim", str(digits), "--max", "flops=90000", "--out", str(out)],
        ["evaluate", str(out), "--split", "val", "--calibrate"],
        ["bench", str(out), "--batch", "2", "--repeats", "1", "--sessions", "1"],
        ["runs", str(tmp_path)],
        ["show", str(out)],
        ["export", str(out), "--out", str(tmp_path / "shipped" / "model.onnx")],
        ["report", str(out), str(digits), "--out", str(tmp_path / "page.html")],
    ]
    for command in commands:
        result = runner.invoke(app, command)
        assert result.exit_code == 0, (command, result.output)
        assert "per input" not in result.output
    assert "validation samples decided" in runner.invoke(app, commands[0]).output
    assert (out / RunRecord.TRIM_FIGURE).exists()
    assert json.loads(runner.invoke(app, [*commands[0], "--json"]).stdout)["limits"] == {"flops": 90000}


def test_the_page_of_a_trimmed_run_has_its_curve(digits: Path, trimmed: tuple[Path, Trimming]) -> None:
    out, found = trimmed
    figures = list(report_of([], [RunRecord.open(out), RunRecord.open(digits)]).figures())
    (curve,) = (figure for figure in figures if figure.name == "trim")
    assert len(curve.panels) == 4  # two metrics on two splits
    drawn = curve.panels[1].to_dict()["data"]["values"]
    expected = [
        (point.test.flops / 1e6, point.test.metrics["nll"]) for point in found.of_kind("theta", "greedy", "chosen")
    ]
    np.testing.assert_allclose([(row["x"], row["y"]) for row in drawn], expected, rtol=1e-5)
    assert [row["kind"] for row in drawn].count("chosen") == 1


def test_a_damaged_choice_is_named_on_the_page(trimmed: tuple[Path, Trimming], tmp_path: Path) -> None:
    shutil.copytree(trimmed[0], tmp_path / "run")
    (tmp_path / "run" / RunRecord.TRIM).write_text("{}")
    (section,) = report_of([], [RunRecord.open(tmp_path / "run")]).sections
    assert any("choice of members cannot be drawn" in part.text for part in section.parts if isinstance(part, Note))


def test_a_trimmed_run_is_shown_with_its_members_and_not_with_a_number_of_exits(trimmed: tuple[Path, Trimming]) -> None:
    out, found = trimmed
    runner = CliRunner()
    shown = runner.invoke(app, ["show", str(out)]).output
    assert "trim flops≤" in shown
    assert "per input" not in shown
    refused = runner.invoke(app, ["show", str(out), "--eval-exits", "4"])
    assert refused.exit_code == 2
    assert "this network can be read in one way only, got --eval-exits 4: leave it out" in refused.output
    record = RunRecord(out)
    network = record.read_network()
    assert network is not None
    plan = network_plan(network, record.read_config(), "trimmed", network.exits)
    assert not plan.has_theta
    assert sum(plan.shares) == pytest.approx(1)
    assert plan.num_predictions == len(found.members)


def test_members_of_a_regression_can_be_chosen(diabetes: Path, tmp_path: Path) -> None:
    found = trim(diabetes, tmp_path / "trimmed", {})
    assert found.metrics == ("nll", "mse")
    assert found.steps[-1].nll == pytest.approx(found.chosen.val.metrics["nll"], rel=1e-5)
    best = min(reading.metrics["nll"] for reading in RunRecord(diabetes).read_evaluation().val.readings)
    assert found.chosen.val.metrics["nll"] <= best
    assert np.isfinite(evaluate(tmp_path / "trimmed").metrics["mse"])


def test_a_limit_below_the_cheapest_member_is_refused_and_leaves_no_folder(digits: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"at least one member, got flops=10: the least possible is flops [\d,]+$"):
        trim(digits, tmp_path / "new", {"flops": 10})
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"nll": 0.5}, "must be on one of flops, params, shipped_flops, shipped_params, got nll"),
        ({"flop": 1e6}, "got flop, did you mean flops"),
        ({"params": 0}, "must be above 0, got 0"),
    ],
)
def test_other_limits_are_refused(digits: Path, tmp_path: Path, limits: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        trim(digits, tmp_path / "new", limits)


def test_a_run_of_another_method_is_refused(tmp_path: Path) -> None:
    run = train(run_config(method="standard", train={"epochs": 1}), tmp_path / "run").path
    with pytest.raises(ConfigError, match="is a run of standard, which has only one exit: give a run of method sae"):
        trim(run, tmp_path / "new", {"flops": 1e6})


def test_an_unfinished_run_is_refused(tmp_path: Path) -> None:
    run = train(run_config(), tmp_path / "run", until=1).path
    with pytest.raises(RecordError, match="is unfinished"):
        trim(run, tmp_path / "new", {"flops": 1e6})


def test_a_trimmed_run_and_the_folder_of_the_run_are_refused(
    digits: Path, trimmed: tuple[Path, Trimming], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="is trimmed already: trim the run that it came from"):
        trim(trimmed[0], tmp_path / "new", {"flops": 1e6})
    with pytest.raises(ConfigError, match="needs a folder of its own"):
        trim(digits, digits, {"flops": 1e6}, force=True)


def test_a_folder_that_cannot_be_used_is_refused_before_anything_is_computed(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sae.training.trimming.restore", lambda *_, **__: pytest.fail("computed too early"))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("keep")
    (tmp_path / "file").write_text("keep")
    refused = {
        tmp_path / "notes": "must be empty or hold a run, but it holds mine.txt",
        tmp_path / "file": "is a file, but must be a run folder",
        tmp_path / "file" / "below": "file is a file, but must be a run folder",
    }
    for out, message in refused.items():
        with pytest.raises(RecordError, match=message):
            trim(digits, out, {"flops": 1e6}, force=True)
    other = RunRecord.create(tmp_path / "other", run_config()).path
    with pytest.raises(RecordError, match="holds a run with another config"):
        trim(digits, other, {"flops": 1e6})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "notes", "other"]


def test_a_config_of_a_trimmed_run_is_not_trained(trimmed: tuple[Path, Trimming], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"method\.trim must not be set for training"):
        train(RunRecord(trimmed[0]).read_config(), tmp_path / "new")


def test_without_it_the_setting_is_not_written(digits: Path) -> None:
    assert "trim" not in (digits / RunRecord.CONFIG).read_text()


@pytest.fixture(scope="module")
def weighed(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Trimming]:
    out = tmp_path_factory.mktemp("runs") / "weighed"
    return out, trim(digits, out, {}, weights="em")


def test_fitted_weights_are_of_the_learnt_members_and_cost_no_more(
    digits: Path, weighed: tuple[Path, Trimming]
) -> None:
    out, found = weighed
    before, after = RunRecord(digits).read_evaluation(), RunRecord(out).read_evaluation()
    method, dataset = restore(RunRecord.open(digits))
    learnt = {divmod(int(m), method.depth) for m in method.member_weights().nonzero().flatten()}
    assert {(int(str(m.input)) - 1, m.exit - 1) for m in found.members} <= learnt
    assert found.weights == "em"
    assert after.val.chosen.metrics["nll"] < before.val.chosen.metrics["nll"]
    assert after.val.chosen.flops <= before.val.chosen.flops
    pruned = restore(RunRecord.open(out))[0].pruned()
    assert after.val.chosen.flops == measure_cost(pruned, dataset.spec.shape).flops
    assert " trim em " in RunRecord(out).read_config().summary
    assert str(found.remark).startswith("Fitted weights lower the NLL of learnt ones by ")


def test_fitted_weights_within_limits_are_those_of_the_chosen_members(
    digits: Path, limit: float, trimmed: tuple[Path, Trimming], tmp_path: Path
) -> None:
    found = trim(digits, tmp_path / "both", {"flops": limit}, weights="em")
    greedy = {(member.input, member.exit) for member in trimmed[1].members}
    assert {(member.input, member.exit) for member in found.members} <= greedy
    assert found.chosen.val.flops <= limit
    assert found.weights in ("em", "greedy")
    if found.weights == "em":
        assert found.chosen.val.metrics["nll"] <= trimmed[1].chosen.val.metrics["nll"] + 1e-5


def test_learnt_weights_stay_where_fitted_ones_do_not_help(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sae.training.trimming.gain_held_out", lambda *_: -0.01)
    found = trim(digits, tmp_path / "run", {}, weights="em")
    assert found.weights == "theta"
    assert str(found.remark).startswith("The learnt weights stay: fitted ones raise the NLL by 0.0100 in a 5-fold")
    before, after = (RunRecord(path).read_evaluation().test.chosen for path in (digits, tmp_path / "run"))
    assert after.metrics == pytest.approx(before.metrics, rel=1e-5)
    assert after.flops == before.flops


def test_weights_of_a_regression_are_not_fitted(diabetes: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="weights are fitted by EM for classes only"):
        trim(diabetes, tmp_path / "run", {}, weights="em")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_with_fitted_weights_is_exported_with_parity(weighed: tuple[Path, Trimming], tmp_path: Path) -> None:
    out, found = weighed
    manifest = export(out, tmp_path / "model.onnx")
    assert manifest.parity.largest_difference <= manifest.parity.tolerance
    weights = {(member.input, member.exit): member.weight for member in manifest.network.members}
    assert weights == pytest.approx({(item.input, item.exit): item.weight for item in found.members})
    assert manifest.cost.shipped_flops == found.chosen.val.shipped_flops


def test_fitted_weights_without_a_choice_of_members_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"method\.trim_weights must be greedy.*sae trim --weights em"):
        run_config(method={"name": "sae", "trim_weights": "em"})


def test_the_command_fits_weights(digits: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["trim", str(digits), "--weights", "em", "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert "5-fold cross-validation on the" in result.stdout
    again = CliRunner().invoke(app, ["trim", str(digits), "--out", str(tmp_path / "run")])
    assert again.exit_code == 2
