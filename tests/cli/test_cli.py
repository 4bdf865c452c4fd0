"""The command line as a user meets it; fast cases in process, the rest as real processes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sae.cli import app
from sae.cli.output import print_evaluation
from sae.cli.receipt import print_receipt
from sae.records.evaluated import SplitEvaluation
from sae.records.evaluation import Evaluation, Reading, ShiftEvaluation, ShiftReading
from sae.records.run import RunRecord
from tests.builders import BACKBONE_NAMES
from tests.fuzz.running import run_command
from tests.studies import StudyBuilder
from tests.study_stages import measured, ship

SAE = [sys.executable, "-c", "from sae.cli import main; main()"]
FAST = ["--set", "backbone.depth=2", "--epochs", "2"]


def sae(*arguments: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cli") / "x"
    code, _, error = sae("train", "--data", "digits", "--inputs", "2", "--exits", "2", *FAST, "--out", out)
    assert code == 0, error
    return out


def test_train_says_what_baselines_reach_and_warns_if_they_are_better(tmp_path: Path) -> None:
    code, out, error = sae("train", "--data", "diabetes", *FAST, "--out", tmp_path / "x")
    assert code == 0
    number = r"[\d.,]+"
    line = f"this network {number}, the mean {number}, ridge regression {number}, gradient boosting {number}\n"
    assert re.search(f"RMSE on validation: {line}", error)
    assert out.startswith("Ridge regression is better here: RMSE ")
    _, out, _ = sae("train", "--data", "diabetes", *FAST, "--out", tmp_path / "x", "--json")
    found = json.loads(out)["baselines"]
    assert found["verdict"].startswith("Ridge regression is better here: ")
    assert found["test"]["ridge regression"] < found["test"]["this network"]


def test_cost_prints_the_published_parameters() -> None:
    arguments = "cost --method sae --backbone resnet --input-shape 3,64,64 --outputs 200 --inputs 2 --active 2,2,2,2"
    code, out, _ = sae(*arguments.split(), "--json")
    assert code == 0
    cost = json.loads(out)
    assert cost["params"] == 22_337_728
    assert isinstance(cost["flops"], int)
    assert sum(part["flops"] for part in cost["by_part"].values()) == cost["flops"]


def test_cost_takes_all_inputs_at_the_last_exits_by_default() -> None:
    text = "cost --backbone vgg --input-shape 3,32,32 --outputs 8 --inputs 3 --width 2 --blocks 1,1,2,2,2 --json"
    base = text.split()
    assert sae(*base, "--exits", "2")[1] == sae(*base, "--active", "0,0,0,3,3")[1]


def test_cost_of_a_standard_network_takes_depth_and_width() -> None:
    arguments = "cost --method standard --backbone fc --input-shape 1,32,32 --outputs 2 --width 4 --depth 5 --json"
    assert json.loads(sae(*arguments.split())[1])["params"] == 1_844_226


@pytest.mark.parametrize("flags", ["mc_dropout --samples 3 --rate 0.2", "batch_ensemble --members 3"])
def test_cost_of_several_members_is_more_than_so_many_times_a_standard_networks(flags: str) -> None:
    base = ["--backbone", "fc", "--input-shape", "8", "--outputs", "2", "--json"]
    one = json.loads(sae("cost", "--method", "standard", *base)[1])["flops"]
    assert json.loads(sae("cost", "--method", *flags.split(), *base)[1])["flops"] > 3 * one


def test_batch_ensemble_is_trained_with_batches_that_members_share_evenly() -> None:
    from sae.cli.training import resolve_run

    flags = {"data": {"name": "bloodmnist"}, "method": {"name": "batch_ensemble", "members": 3}}
    assert resolve_run(None, flags, []).train.batch_size == 144
    assert resolve_run(None, flags, ["train.batch_size=128"]).train.batch_size == 128


def test_evaluation_prints_calibrated_numbers_beside_the_raw_ones(run: Path) -> None:
    code, out, _ = sae("evaluate", run, "--calibrate")
    assert code == 0
    assert "temperature" in out
    assert out.count("│ nll ") == 2
    report = json.loads(sae("evaluate", run, "--calibrate", "--json")[1])
    assert {"temperature", "calibrated", "metrics"} <= set(report["by_exits"][0])


@pytest.mark.parametrize("num_exits", [1, 3])
def test_a_temperature_that_is_special_is_explained(num_exits: int, capsys: pytest.CaptureFixture[str]) -> None:
    remark = "T stays 1, because of something."
    cost = {"active": (1,), "params": 1, "flops": 1, "shipped_params": 1, "shipped_flops": 1}
    scaled = {"temperature": 1.0, "temperature_remark": remark, "calibrated": {"nll": 1.0}}
    readings = [
        Reading.model_validate({"eval_exits": k, "metrics": {"nll": 1.0}, **cost, **(scaled if k != 2 else {})})
        for k in range(1, num_exits + 1)
    ]
    evaluation = Evaluation.model_validate({"exits": 1, "readings": readings})
    found = SplitEvaluation(run="runs/x", split="test", evaluation=evaluation)
    print_evaluation(found)
    assert capsys.readouterr().out.endswith(f"{remark}\n" if num_exits == 1 else f"1 and 3 exits: {remark}\n")
    assert found.to_json()["temperature_remark"] == remark


def test_calibrated_numbers_say_what_scaling_does_under_shift(capsys: pytest.CaptureFixture[str]) -> None:
    cost = {"active": (1,), "params": 1, "flops": 1, "shipped_params": 1, "shipped_flops": 1}
    scaled = {"temperature": 0.5, "calibrated": {"nll": 0.9}}
    reading = Reading.model_validate({"eval_exits": 1, "metrics": {"nll": 1.0}, **cost, **scaled})
    evaluation = Evaluation.model_validate({"exits": 1, "readings": [reading]})
    found = SplitEvaluation(run="x", split="test", evaluation=evaluation)
    print_evaluation(found)
    assert "What scaling does under shift was not measured." in capsys.readouterr().out
    metrics = {"nll": 0.213, "nll_scaled": 0.527}
    shifted = ShiftReading(eval_exits=1, metrics=metrics, std_over_sets={}, sets=())
    print_evaluation(found, ShiftEvaluation(exits=1, num_sets=95, readings=(shifted,)))
    assert "On corrupted images scaling changes the NLL from 0.2130 to 0.5270." in capsys.readouterr().out


def test_errors_of_a_regression_name_the_target_as_their_unit(tmp_path: Path) -> None:
    rows = [f"{i % 7},{i % 5},{100 * (i % 7) + i}" for i in range(80)]
    (tmp_path / "houses.csv").write_text("\n".join(["rooms,age,price", *rows]))
    data = ["--data", str(tmp_path / "houses.csv"), "--target", "price", "--task", "regression", "--method", "standard"]
    assert sae("train", *data, *FAST, "--out", tmp_path / "x")[0] == 0
    code, out, _ = sae("evaluate", tmp_path / "x")
    assert code == 0
    assert all(name in out for name in ("rmse (price)", "mae (price)", "mse (price²)", "pinball (price)", " r2 "))
    assert "width_90 (price)" in out
    assert out.count("½·log 2π") == 1


def test_the_receipt_does_not_compare_with_an_ensemble_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = StudyBuilder(tmp_path / "s", methods=("sae", "ensemble"))
    study.finish({"name": "sae", "inputs": 2, "exits": 2}, [measured(0.5, 0.1, 1000), measured(0.4, 0.1, 1200)])
    study.finish({"name": "ensemble", "members": 1}, [measured(0.6, 0.2, 900)])
    print_receipt("model.onnx", ship(study))
    out = capsys.readouterr().out
    assert "the pick, shipped" in out
    assert "ensemble" not in out


def test_metrics_that_an_older_version_did_not_measure_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    cost = {"active": (1,), "params": 1, "flops": 1, "shipped_params": 1, "shipped_flops": 1}
    reading = Reading.model_validate({"exits": 1, "metrics": {"nll": 5.3, "mse": 2943.127}, **cost})
    evaluation = Evaluation.model_validate({"exits": 1, "by_exits": [reading]})
    print_evaluation(SplitEvaluation(run="runs/x", split="test", evaluation=evaluation))
    out = capsys.readouterr().out
    assert "2,943" in out
    assert "rmse" not in out


def test_cost_of_an_ensemble_takes_members() -> None:
    arguments = "cost --method ensemble --backbone fc --input-shape 1,32,32 --outputs 2 --width 4 --depth 5 --json"
    assert json.loads(sae(*arguments.split(), "--members", "3")[1])["params"] == 3 * 1_844_226
    assert json.loads(sae(*arguments.split())[1])["params"] == 4 * 1_844_226


def test_an_ensemble_is_trained_and_evaluated_from_its_weights(tmp_path: Path) -> None:
    arguments = ["train", "--data", "digits", "--method", "ensemble", "--members", "3", *FAST, "--json"]
    code, out, error = sae(*arguments, "--processes", "1", "--out", tmp_path / "x")  # others take long to start
    assert code == 0, error
    report = json.loads(out)
    assert report["metrics"]["diversity_disagreement"] > 0
    assert json.loads(sae("evaluate", tmp_path / "x", "--json")[1])["metrics"] == report["metrics"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--backbone fc --method mc_dropout --rate 1.5 --input-shape 8 --outputs 2", "method.rate must be less than"),
        ("--backbone fc --method mc_dropout --members 2 --input-shape 8 --outputs 2", "unknown setting method.members"),
        ("--backbone vgg --input-shape 1,8,8 --outputs 10", "needs images of at least 16×16"),
        ("--backbone vgg --input-shape 1,8,x --outputs 10", "--input-shape takes whole numbers"),
        ("--backbone vgg --input-shape 1,0,8 --outputs 10", "sizes of at least 1"),
        ("--backbone fcc --input-shape 8 --outputs 10", f"backbone.name must be one of {BACKBONE_NAMES}"),
        ("--backbone fc --input-shape 8 --outputs 10 --exits 6", "method.exits must be in [1, 5], got 6"),
        ("--backbone fc --input-shape 8 --outputs 10 --inputs 0", "method.inputs must be greater than or equal to 1"),
        ("--backbone fc --input-shape 8 --outputs 10 --exits 2 --active 1,1,1,1,1", "give one of them"),
        ("--backbone fc --input-shape 8 --outputs 10 --active 1,1", "active must hold 5 counts"),
        ("--backbone fc --method standard --inputs 2 --input-shape 8 --outputs 10", "unknown setting method.inputs"),
    ],
)
def test_a_mistake_costs_one_sentence_and_exit_code_two(arguments: str, message: str) -> None:
    code, out, error = sae("cost", *arguments.split())
    assert code == 2
    assert out == ""
    assert message in error
    assert "Traceback" not in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--data digit", "did you mean digits?"),
        ("", "--data NAME"),
        ("--data digits --method sea", "did you mean sae?"),
        ("--data digits --exits 9", "method.exits must be in [1, 5], got 9"),
        ("--data digits --set train.epochz=3", "did you mean train.epochs?"),
        ("--data digits --set train.lr", "--set takes section.key=value"),
        ("--data digits --config absent.yaml", "config file must be readable"),
        ("--data diabetes --backbone resnet", "resnet needs images"),
        ("--data digits --set train.device=cuda:9", "train.device must be a device"),
        ("--data digits --method standard --set train.batch_size=1", "at least 2 samples"),
    ],
)
def test_a_mistake_in_training_leaves_no_folder(arguments: str, message: str, tmp_path: Path) -> None:
    code, out, error = sae("train", *arguments.split(), "--out", tmp_path / "x")
    assert (code, out) == (2, "")
    assert message in error
    assert not (tmp_path / "x").exists()


def test_a_yaml_with_a_typo_is_refused_with_the_nearest_key(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("data: {name: digits}\ntrain: {epoch: 3}\n")
    code, _, error = sae("train", "--config", tmp_path / "run.yaml", "--out", tmp_path / "x")
    assert code == 2
    assert "unknown setting train.epoch, did you mean train.epochs?" in error


def test_flags_go_over_yaml_and_set_over_flags(tmp_path: Path) -> None:
    yaml = "data: {name: digits}\nmethod: {name: sae, inputs: 3}\ntrain: {epochs: 9, lr: 0.5}\n"
    (tmp_path / "run.yaml").write_text(yaml)
    arguments = ["--config", str(tmp_path / "run.yaml"), "--inputs", "1", "--epochs", "4", "--set", "train.epochs=1"]
    code, _, error = sae("train", *arguments, "--set", "backbone.depth=2", "--out", tmp_path / "x")
    assert code == 0, error
    saved = (tmp_path / "x" / "config.yaml").read_text()
    assert "inputs: 1" in saved
    assert "epochs: 1" in saved
    assert "lr: 0.5" in saved


def test_training_prints_a_row_for_each_number_of_exits(run: Path) -> None:
    code, out, error = sae("train", "--data", "digits", "--inputs", "2", "--exits", "2", *FAST, "--out", run)
    assert code == 0
    assert "accuracy" in out
    best = min((1, 2), key=lambda exits: RunRecord(run).read_evaluation().val.at(exits).metrics["nll"])
    assert f"{best} ←" in out
    assert f"is read at {best} of 2 exits per input, which is best on validation" in error


def test_another_config_in_the_folder_is_refused_without_force(run: Path, tmp_path: Path) -> None:
    code, _, error = sae("train", "--data", "digits", "--inputs", "3", *FAST, "--out", run)
    assert code == 2
    assert "method.inputs 2 → 3" in error
    assert "--force" in error


def test_evaluate_has_the_shape_of_the_specification(run: Path) -> None:
    code, out, _ = sae("evaluate", run, "--split", "val", "--eval-exits", "1", "--json")
    report = json.loads(out)
    assert code == 0
    assert list(report) == ["run", "split", "exits", "metrics", "by_exits", "shift"]
    assert (report["run"], report["split"], report["exits"]) == (str(run), "val", 1)
    assert set(report["by_exits"][0]) == {
        *("exits", "active", "params", "flops", "shipped_params", "shipped_flops", "metrics", "members")
    }


def test_a_decision_by_cost_is_printed_and_in_json(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    rows = [f"{number % 7},{(number * 37) % 11},{'yes' if number % 7 > 4 else 'no'}" for number in range(120)]
    table.write_text("\n".join(["a,b,bought", *rows]))
    code, _, error = sae("train", table, "--target", "bought", *FAST, "--out", tmp_path / "x")
    assert code == 0, error
    costs = ["--cost-fp", "1", "--cost-fn", "10"]
    decision = json.loads(sae("evaluate", tmp_path / "x", *costs, "--json")[1])["decision"]
    assert (decision["positive"], decision["is_best"]) == ("yes", True)
    missed, wrong = decision["false_negatives"], decision["false_positives"]
    total = missed + wrong + decision["true_positives"] + decision["true_negatives"]
    assert decision["mean_cost"] == pytest.approx((wrong + 10 * missed) / total)
    code, out, _ = sae("evaluate", tmp_path / "x", "--threshold", "0.3", "--positive", "no")
    assert "no from a probability of 0.3 on: on test, recall " in out


def test_ten_classes_are_not_decided_by_cost(run: Path) -> None:
    code, _, error = sae("evaluate", run, "--threshold", "0.3")
    assert code == 2
    assert "--threshold and costs are for two classes, got 10 classes: leave them out" in error


def test_evaluating_nothing_is_a_mistake(tmp_path: Path) -> None:
    code, _, error = sae("evaluate", tmp_path)
    assert code == 2
    assert f"{tmp_path} is not a run folder: it has no config.yaml from `sae train`" in error


def test_a_diverged_run_is_exit_code_three(tmp_path: Path) -> None:
    explode = ["--set", "train.lr=1e30", "--set", "train.clip_norm=1e30"]
    code, _, error = sae("train", "--data", "digits", *FAST, *explode, "--out", tmp_path / "x")
    assert code == 3
    assert "the loss must stay finite" in error


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_help_and_importing_sae_load_no_torch() -> None:
    run_help = "sys.argv = ['sae', 'train', '--help']\ntry: sae.cli.main()\nexcept SystemExit: pass\n"
    done = python(f"import sys, sae, sae.cli\n{run_help}sys.exit('torch' in sys.modules or 'numpy' in sys.modules)")
    assert done.returncode == 0, done.stderr
    assert "--inputs" in done.stdout


@pytest.mark.parametrize("missing", ["torch", "sklearn"])
def test_a_command_without_its_extra_says_which(missing: str, tmp_path: Path) -> None:
    arguments = ["sae", "train", "--data", "digits", "--out", str(tmp_path / "x")]
    block = f"import sys; sys.modules['{missing}'] = None; sys.argv = {arguments}"
    done = python(f"{block}; from sae.cli import main; main()")
    assert done.returncode == 2
    assert f"this command needs {missing}" in done.stderr
    assert "saensemble[train]" in done.stderr
    assert "Traceback" not in done.stderr


def test_tracking_without_its_extra_says_so_before_anything_is_done(tmp_path: Path) -> None:
    arguments = ["sae", "train", "--data", "digits", "--tensorboard", "--out", str(tmp_path / "x")]
    done = python(
        f"import sys; sys.modules['tensorboard'] = None; sys.argv = {arguments}; from sae.cli import main; main()"
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: this command needs tensorboard")
    assert "saensemble[tensorboard]" in done.stderr
    assert not (tmp_path / "x").exists()


def test_training_writes_event_files_if_asked_to(tmp_path: Path) -> None:
    assert sae("train", "--data", "digits", *FAST, "--tensorboard", "--out", tmp_path / "x")[0] == 0
    assert len(list((tmp_path / "x" / "tensorboard").iterdir())) == 1


def test_every_public_name_is_there() -> None:
    import sae

    for name in dir(sae):
        assert getattr(sae, name) is not None
    with pytest.raises(AttributeError, match="public names"):
        sae.nothing  # noqa: B018


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    while not path.exists():
        assert process.poll() is None, "ended before its first checkpoint"
        time.sleep(0.005)


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
def test_a_killed_process_continues_to_the_same_numbers(sent: signal.Signals, code: int, tmp_path: Path) -> None:
    arguments = ["train", "--data", "digits", "--set", "backbone.depth=2", "--epochs", "40", "--out"]
    whole = subprocess.run([*SAE, *arguments, tmp_path / "whole"], capture_output=True, check=False)
    assert whole.returncode == 0, whole.stderr
    process = subprocess.Popen(
        [*SAE, *arguments, tmp_path / "cut"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where tests run in the background
    )
    wait_for(tmp_path / "cut" / "checkpoint.safetensors", process)
    os.kill(process.pid, sent)
    _, error = process.communicate()
    assert process.returncode == code
    assert sent == signal.SIGKILL or b"the same command continues" in error
    assert not (tmp_path / "cut" / "status.json").exists()
    again = subprocess.run([*SAE, *arguments, tmp_path / "cut"], capture_output=True, check=False)
    assert again.returncode == 0, again.stderr
    for name in ("metrics.json", "history.csv", "curves.json", "model.safetensors"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_nothing_is_drawn_where_standard_error_is_no_terminal(tmp_path: Path) -> None:
    done = run_command(["train", "--data", "digits", *FAST, "--out", str(tmp_path / "x"), "--json"], tmp_path)
    assert "steps," not in done.error  # the words of the progress bar
    assert "\x1b" not in done.error
    assert done.error.endswith(f"the run is in {tmp_path / 'x'}\n")
    json.loads(done.output)


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("data: digits\ntrain: 3\n", "train must be a section of settings, got 3"),
        ("data: digits\nbackbone: [1]\n", "backbone must be a section of settings, got [1]"),
        ("data: digits\ntrain: {epochs: true}\n", "train.epochs must not be true or false"),
        ("data: digits\ntrain: {epochs: 1}\ntrain: {lr: 1}\n", "'train' is given twice"),
        ("- 1\n", "config file must hold a mapping"),
    ],
)
def test_a_strange_yaml_is_refused_and_not_ignored(yaml: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(yaml)
    code, _, error = sae("train", "--config", tmp_path / "run.yaml", "--inputs", "2", "--out", tmp_path / "x")
    assert code == 2
    assert message in error


def test_sections_may_be_given_by_their_name_alone(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("data: digits\nmethod: standard\nbackbone: vgg\n")
    arguments = ["--depth", "2", "--epochs", "1", "--out", str(tmp_path / "x")]
    assert sae("train", "--config", tmp_path / "run.yaml", *arguments)[0] == 0
    saved = (tmp_path / "x" / "config.yaml").read_text()
    assert "name: standard" in saved
    assert "name: vgg" in saved


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.lr=[", "--set takes a value that is YAML"),
        ("data.split_seed=-1", "data.split_seed must be greater than or equal to 0"),
        ("train.device=meta", "train.device must be a device"),
        ("train.threads=1000000000000", "train.threads must be less than or equal to 64"),
        ("backbone.width=99999999", "backbone.width must be less than or equal to 64"),
        ("method.inputs=10000000", "method.inputs must be less than or equal to 64"),
        ("data.crop=-1", "data.crop must be greater than or equal to 0"),
    ],
)
def test_values_out_of_all_bounds_are_refused(setting: str, message: str, tmp_path: Path) -> None:
    code, _, error = sae("train", "--data", "digits", "--set", setting, "--out", tmp_path / "x")
    assert code == 2
    assert message in error


@pytest.mark.parametrize("setting", ["data.flip=true", "data.crop=2"])
def test_tables_are_not_augmented(setting: str, tmp_path: Path) -> None:
    code, _, error = sae("train", "--data", "diabetes", "--set", setting, "--out", tmp_path / "x")
    assert code == 2
    assert "this is a table" in error


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file" / "x", tmp_path / ("n" * 300)):
        code, _, error = sae("train", "--data", "digits", *FAST, "--out", out)
        assert code == 2
        assert "Traceback" not in error


@pytest.mark.parametrize("name", ["[seed0]", "u[b]"])
def test_brackets_in_a_folder_name_are_no_markup(name: str, run: Path) -> None:
    (run.parent / name).symlink_to(run)
    assert f"{name} on test" in sae("evaluate", run.parent / name)[1]


def test_one_stage_takes_one_exit_by_default() -> None:
    arguments = "cost --backbone fc --depth 1 --input-shape 8 --outputs 2 --active 2"
    assert sae(*arguments.split())[0] == 0


@pytest.mark.parametrize("arguments", ["evaluate x --split train", "cost --backbone fc --input-shape 8 --outputs 0"])
def test_a_wrong_choice_is_one_sentence(arguments: str) -> None:
    code, _, error = sae(*arguments.split())
    assert code == 2
    assert len(error.strip().splitlines()) == 1


def test_evaluation_fits_a_narrow_terminal(run: Path) -> None:
    out = sae("evaluate", run)[1]
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.slow
def test_the_demo_searches_confirms_and_picks(tmp_path: Path) -> None:
    arguments = ("demo", "--epochs", "2", "--trials", "4", "--out", tmp_path / "demo", "--json")
    code, out, error = sae(*arguments)
    assert code == 0, error
    result = json.loads(out)
    assert {method: states["finished"] for method, states in result["trials"].items()} == {
        "sae": 4,
        "ensemble": 2,
        "standard": 2,
        "mc_dropout": 2,
        "batch_ensemble": 2,
    }
    assert result["pick"]["run"] in [item["run"] for item in result["front"]]
    assert all(item["seeds"] == 2 and item["test"]["accuracy"]["mean"] > 0.3 for item in result["confirmed"]["front"])
    assert json.loads(sae(*arguments)[1]) == result
    check_receipt(tmp_path / "demo", result)


def check_receipt(study: Path, result: dict[str, Any]) -> None:
    """The pick is shipped and stands beside the ensemble and the standard network, and `export` says the same."""
    receipt, model = result["receipt"], study / "shipped" / "model.onnx"
    pick = receipt["rows"]["pick"]
    assert pick["trial"] == result["pick"]["trial"]
    assert pick["bytes"] == model.stat().st_size
    assert receipt["predicted"]["right"] == round(pick["metrics"]["accuracy"] * receipt["predicted"]["samples"])
    assert pick["metrics"]["nll"] == pytest.approx(result["pick"]["test"]["nll"], abs=1e-4)
    for other, ratios in receipt["ratios"].items():
        row = receipt["rows"][other]
        assert row["trial"].startswith(other)
        assert ratios["shipped_flops"] == row["shipped_flops"] / pick["shipped_flops"]
        assert row["ms"] > 0
    code, out, error = sae("export", study, "--out", model)
    assert code == 0, error
    assert "the pick, shipped" in out
    assert "predicted from the file alone" in out
    assert sae("export", study, "--out", model, "--eval-exits", "1")[0] == 2


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sae", "standard"])
def test_digits_reach_the_accuracy_that_is_expected_of_them(method: str, tmp_path: Path) -> None:
    out = sae("train", "--data", "digits", "--method", method, "--out", tmp_path / "x", "--json")[1]
    assert json.loads(out)["metrics"]["accuracy"] > 0.97
