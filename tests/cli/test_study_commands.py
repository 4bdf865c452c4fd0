"""`sae pareto` and `sae pick` on study folders, without training."""

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from sae.analysis.candidates import candidates
from tests.builders import run_config
from tests.cli.test_cli import sae
from tests.studies import StudyBuilder, point, small_study
from tests.studies import sae as sae_settings
from tests.study_stages import two_front_study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_study(tmp_path_factory.mktemp("study") / "my study").record.path


def read(*arguments: str | Path) -> dict[str, Any]:
    code, out, error = sae(*arguments, "--json")
    assert code == 0, error
    report: dict[str, Any] = json.loads(out)
    return report


def test_pareto_prints_the_front_by_the_first_objective(study: Path) -> None:
    code, out, error = sae("pareto", study)
    assert (code, error) == (0, "")
    rows = [line.split("│")[1:-1] for line in out.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row][:8] for row in rows] == [
        ["sae/2", "SAE: MIMMO", "N=3 K=3 W=1 D=3", "3", "1, 2, 3 of 3", "0.200", "0.090", "0.004000"],
        ["sae/0, the pick", "SAE: I/B", "N=2 K=2 W=1 D=3", "2", "2, 3 of 3", "0.300", "0.080", "0.002000"],
        ["sae/0", "SAE: I/B", "N=2 K=2 W=1 D=3", "1", "3 of 3", "0.500", "0.100", "0.001000"],
        ["standard/0", "Standard", "W=1 D=3", "–", "–", "0.600", "0.050", "0.000900"],
    ]
    assert "on validation" in out
    assert "K′: most exits per input that an SAE predicts from; it was trained with K" in out
    assert "front: 4 of 7 candidates" in out
    assert "trials: sae 2 finished, 1 stopped, 1 failed, 1 unfinished; standard 1 finished" in out
    assert "after 5 trials" in out


@pytest.mark.parametrize("width", [60, 80, 90])
def test_a_narrow_terminal_shows_whole_numbers_and_names_the_columns_it_leaves_out(
    study: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, error = sae("pareto", study)
    assert code == 0
    assert all(len(line) <= width for line in out.splitlines() if line.startswith("│"))
    assert all(f" {number} " in out for number in ("0.300", "0.080", "0.002000"))
    assert "columns left out because the terminal is too narrow: " in error
    assert "shipped_flops, shipped_params" in error
    assert "shipped" not in out


def test_the_json_of_pareto_has_front_history_and_counts(study: Path) -> None:
    report = read("pareto", study)
    assert report["objectives"] == ["nll", "cc_ece", "flops"]
    assert {"run", "method", "kind", "exits", "eval_exits", "active", "values"} <= set(report["front"][0])
    assert Path(report["front"][0]["run"], "metrics.json").exists()
    assert report["hypervolume"] == report["history"][-1]["hypervolume"]
    assert set(report["history"][0]) == {"trial", "ended", "trials", "hypervolume"}
    assert report["trials"]["sae"]["failed"] == 1
    assert report["grid"][1] == {"inputs": 2, "exits": 2, "trials": 2, "finished": 1}


def test_objectives_limits_and_methods_can_be_asked_for(study: Path) -> None:
    assert [item["trial"] for item in read("pareto", study, "--objectives", "f1")["front"]] == ["sae/2"]
    limited = read("pareto", study, "--max", "flops=3e3", "--min", "f1=0.72")
    assert [item["values"]["flops"] for item in limited["front"]] == [2000, 1000]
    assert (limited["max"], limited["min"]) == ({"flops": 3000.0}, {"f1": 0.72})
    only = read("pareto", study, "--method", "standard")
    assert [item["trial"] for item in only["front"]] == ["standard/0"]
    assert [row["trial"] for row in only["history"]] == ["standard/0"]
    assert only["hypervolume"] < read("pareto", study)["hypervolume"]


def test_the_limits_of_the_study_hold_unless_others_are_given(tmp_path: Path) -> None:
    small_study(tmp_path / "s", max={"flops": 1500})
    code, out, _ = sae("pareto", tmp_path / "s")
    assert code == 0
    assert "within flops ≤ 1,500" in out
    assert len(read("pareto", tmp_path / "s")["front"]) == 2
    assert len(read("pareto", tmp_path / "s", "--max", "flops=1e9")["front"]) == 4
    assert len(read("pareto", tmp_path / "s", "--min", "f1=0.72")["front"]) == 1


def test_the_front_is_written_as_a_table_with_every_metric(study: Path, tmp_path: Path) -> None:
    code, _, error = sae("pareto", study, "--csv", tmp_path / "front.csv")
    assert code == 0
    assert "front.csv" in error
    with (tmp_path / "front.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["trial"] for row in rows] == ["sae/2", "sae/0", "sae/0", "standard/0"]
    assert (rows[0]["active"], rows[0]["f1"], rows[0]["flops"]) == ("1 1 1", "0.9", "4000")


@pytest.mark.parametrize("name", ["front.png", "front.svg"])
def test_the_front_is_drawn(name: str, study: Path, tmp_path: Path) -> None:
    code, _, error = sae("pareto", study, "--figure", tmp_path / name)
    assert code == 0, error
    assert (tmp_path / name).stat().st_size > 5000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--objectives nll,flosp", "did you mean flops?"),
        ("--objectives nll,nll", "--objectives takes different names"),
        ("--objectives nll,", "--objectives takes different names"),
        ("--objectives nll@shift", "no finished trial has it: search with --objectives …,nll@shift"),
        ("--max nll@shift=1", "no finished trial has it"),
        ("--max flops", "--max takes name=number, e.g. flops=2e6, got 'flops'"),
        ("--max flops=much", "--max takes name=number"),
        ("--max flops=nan", "--max takes name=number"),
        ("--max =3", "--max takes name=number"),
        ("--min f1=0.1 --min f1=0.2", "--min takes each name once, got f1 twice"),
        ("--min f1=80", "a lower limit on f1 must be at most 1 (its largest value), got 80"),
        (
            "--method seae",
            "method must be one that this study searched (sae, standard, ensemble), got 'seae', did you mean sae?",
        ),
        ("--figure front.pdf", "--figure must name a .png or .svg file, got front.pdf"),
        ("--figure /absent/front.png", "--figure must name a file that can be written"),
        ("--csv /absent/front.csv", "could not be written"),
    ],
)
def test_a_mistake_costs_one_sentence(arguments: str, message: str, study: Path) -> None:
    code, _, error = sae("pareto", study, *arguments.split())
    assert code == 2
    assert message in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize("command", ["pareto", "pick"])
def test_a_folder_that_is_no_study_is_named(command: str, tmp_path: Path) -> None:
    code, _, error = sae(command, tmp_path)
    assert code == 2
    assert f"{tmp_path} is not a study folder: it has no study.yaml from `sae search`" in error


@pytest.mark.parametrize("command", ["pareto", "pick"])
def test_a_study_in_which_nothing_finished_has_nothing_to_offer(command: str, tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    code, _, error = sae(command, tmp_path / "s")
    assert code == 3
    assert f"no trial of {tmp_path / 's'} has finished yet" in error
    assert "no trial has begun" in error
    study.end(sae_settings(1, 1), "failed", error="nan")
    study.begin(sae_settings(1, 1))
    code, _, error = sae(command, tmp_path / "s")
    assert code == 3
    assert "1 failed, 1 unfinished" in error


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ("--max flops=10", "none keeps flops ≤ 10; the nearest has flops 900 (standard/0 at 1 exit)"),
        ("--min f1=0.95", "none keeps f1 ≥ 0.95; the nearest has f1 0.9 (sae/2 at 3 exits)"),
        ("--max flops=1000 --min f1=0.8", "keeps flops ≤ 1,000 and f1 ≥ 0.8 at once; the nearest has flops 1,000"),
    ],
)
def test_where_nothing_is_within_the_limits_the_nearest_is_named(limits: str, message: str, study: Path) -> None:
    code, _, error = sae("pareto", study, *limits.split())
    assert code == 3
    assert message in error
    assert len(error.strip().splitlines()) == 1


def test_a_method_without_finished_trials_has_nothing_to_offer(study: Path) -> None:
    code, _, error = sae("pick", study, "--method", "ensemble")
    assert code == 3
    assert f"no trial of {study} has finished yet" in error


def test_pick_prints_one_configuration_with_its_reason_and_what_to_do(study: Path) -> None:
    code, out, _ = sae("pick", study)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == (
        "Provisional: 5 of 6 trials have ended. So far sae/0 leads: one network with several inputs and some of its "
        "exits (N=2 K=2 W=1 D=3), read at exits 2 and 3 of 3. (K′=2, as trained.)"
    )
    assert lines[1].startswith("why: best compromise of NLL, CC-ECE and FLOPs among the 4 Pareto-optimal candidates")
    assert "test (not used for choosing)" in out
    run = read("pick", study)["run"]
    assert f"run folder:     {run}" in lines
    again = "sae train --data digits --depth 3 --epochs 2 --set data.crop=0 --out runs/picked"
    assert f"train it again: {again}" in lines
    assert f"look closer:    sae evaluate '{run}' --eval-exits 2" in lines
    assert f"export it:      sae export '{study}' --out shipped/model.onnx" in lines


def test_the_json_of_pick_is_an_item_of_the_front_with_its_reason(study: Path) -> None:
    report = read("pick", study)
    more = ("why", "chosen_by", "recommendation", "baselines", "test", "commands")
    assert {key: report[key] for key in report if key not in more} in read("pareto", study)["front"]
    assert report["chosen_by"]["seeds"] == [0]
    assert not report["chosen_by"]["are_new"]
    assert report["test"]["nll"] == 1.3
    assert report["commands"]["evaluate"].endswith("--eval-exits 2")
    assert report["recommendation"]["state"] == "provisional"


def test_pick_offers_the_export_of_what_it_was_asked_for(study: Path) -> None:
    _, out, _ = sae("pick", study, "--max", "flops=2000", "--prefer", "nll", "--method", "sae")
    assert f"sae export '{study}' --prefer nll --max flops=2000 --method sae --out shipped/model.onnx" in out
    _, out, _ = sae("pick", study, "--objectives", "nll,params")
    assert "/trials/sae/00000-" in out.split("export it:")[1]  # `sae export` has no --objectives


def test_nearly_equal_candidates_of_the_front_are_one_row_unless_that_is_turned_off(tmp_path: Path) -> None:
    builder = StudyBuilder(tmp_path / "s")
    builder.finish({"name": "standard"}, [point(0.300, 0.100, 10_000)])
    builder.finish({"name": "standard"}, [point(0.301, 0.099, 10_050)])
    builder.finish({"name": "standard"}, [point(0.500, 0.100, 5_000)])
    _, out, _ = sae("pareto", tmp_path / "s")
    rows = [line for line in out.splitlines() if line.startswith("│")]
    assert len(rows) == 2
    assert "alike: 1 candidate nearly the same as a row above" in out
    _, out, _ = sae("pareto", tmp_path / "s", "--tolerance", "0")
    assert len([line for line in out.splitlines() if line.startswith("│")]) == 3
    assert len(read("pareto", tmp_path / "s")["front"]) == 3


def test_pick_follows_what_is_preferred_and_the_limits(study: Path) -> None:
    assert read("pick", study, "--prefer", "nll")["trial"] == "sae/2"
    assert read("pick", study, "--prefer", "nll", "--max", "flops=2000")["trial"] == "sae/0"
    cheap = read("pick", study, "--prefer", "params", "--method", "sae")
    assert (cheap["trial"], cheap["eval_exits"]) == ("sae/0", 1)
    code, out, _ = sae("pick", study, "--prefer", "flops")
    assert "leads: a standard network (W=1 D=3).\nwhy: lowest FLOPs" in out
    assert "--eval-exits" not in out
    code, _, error = sae("pick", study, "--prefer", "nl")
    assert code == 2
    assert "did you mean nll?" in error


def test_a_network_read_at_another_k_is_told_with_the_trained_one(study: Path) -> None:
    out = sae("pick", study, "--max", "flops=1000", "--method", "sae")[1]
    assert "read at its last exit (3 of 3). (K′=1, trained with K=2.)" in out


def test_the_test_split_changes_no_choice(tmp_path: Path) -> None:
    study = small_study(tmp_path / "s").record
    before = {command: read(command, study.path) for command in ("pareto", "pick")}
    for run in {item.label: item.run.record for item in candidates(study.read_runs())}.values():
        metrics = json.loads((run.path / run.METRICS).read_text())
        for item in metrics["test"]["by_exits"]:
            item["metrics"] = dict.fromkeys(item["metrics"], 5.0)
        run.write_json(run.METRICS, metrics)
    assert read("pareto", study.path) == before["pareto"]
    assert {**read("pick", study.path), "test": None} == {**before["pick"], "test": None}


def test_shifted_objectives_are_read_where_they_were_recorded(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s", objectives=("nll@shift", "flops"))
    study.finish(sae_settings(2, 1), [point(0.1, 0.1, 100)], shift=True)
    assert read("pick", tmp_path / "s")["values"]["nll@shift"] == pytest.approx(1.1)


def line_of(table: str, name: str) -> str:
    return next(line for line in table.splitlines() if line.startswith(f"│ {name} "))


def test_both_commands_choose_under_shift_where_it_was_measured(tmp_path: Path, study: Path) -> None:
    both = two_front_study(tmp_path / "s").record.path
    clean, shifted = read("pareto", both), read("pareto", both, "--shift")
    assert shifted["objectives"] == ["nll@shift", "cc_ece@shift", "flops"]
    assert [item["trial"] for item in shifted["front"]] != [item["trial"] for item in clean["front"]]
    assert read("pareto", both, "--shift", "--objectives", "f1,flops")["objectives"] == ["f1@shift", "flops"]
    lowest = min(shifted["front"], key=lambda item: item["values"]["nll@shift"])
    assert read("pick", both, "--shift", "--prefer", "nll")["trial"] == lowest["trial"]
    assert "corrupted validation images" in sae("pareto", both, "--shift")[1]
    assert f"{lowest['values']['nll@shift']:.4g}" in line_of(sae("pick", both, "--shift", "--prefer", "nll")[1], "nll")
    assert "corrupted validation" not in sae("pick", study)[1]
    for command in ("pareto", "pick"):
        code, _, error = sae(command, study, "--shift")
        assert (code, error.count("\n")) == (2, 1)
        assert "this study has none" in error


def test_reading_a_study_loads_no_torch(study: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys; from sae.cli import app; "
        f"app(['pareto', {str(study)!r}, '--json'], standalone_mode=False); assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_the_commands_of_a_pick_work_and_give_its_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sae.training.run import train

    monkeypatch.chdir(tmp_path)
    study = StudyBuilder(Path("my study")).record
    for number, exits in enumerate((1, 3)):
        config = run_config(method=sae_settings(2, exits), backbone={"name": "fc", "depth": 3})
        train(config, study.trial("sae", number, config).path)
    report = read("pick", "my study", "--prefer", "flops")
    evaluated = read(*shlex.split(report["commands"]["evaluate"])[1:])
    assert evaluated["metrics"] == report["test"]
    again = read(*shlex.split(report["commands"]["train"])[1:])
    metrics = next(item["metrics"] for item in again["by_exits"] if item["exits"] == report["eval_exits"])
    assert metrics == report["test"]
