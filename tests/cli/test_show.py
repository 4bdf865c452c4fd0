"""`sae show` as a user meets it."""

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from sae.records.run import RunRecord
from sae.training.run import train
from tests.builders import run_config
from tests.cli.test_cli import python, sae

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    method = {"name": "sae", "inputs": 3, "exits": 1}
    return train(run_config(method=method, train={"epochs": 1}), tmp_path_factory.mktemp("show") / "run").path


def test_the_terminal_shows_a_drawing_and_the_parts(run: Path) -> None:
    code, out, error = sae("show", run, "--eval-exits", "1")
    assert (code, error) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "run: one network with several inputs and all exits (N=3 K=1 W=1 D=2), read at both exits"
    assert lines[1].split() == ["input", "1", "input", "2", "input", "3"]
    assert any(line.startswith("  stage 1 ") for line in lines)
    assert "prediction: weighted mean of 3" in out
    assert "Parts of the network" in out


def test_by_default_it_is_read_where_it_is_best_on_validation(run: Path) -> None:
    best = min((1, 2), key=lambda exits: RunRecord(run).read_evaluation().val.at(exits).metrics["nll"])
    code, out, error = sae("show", run, "--json")
    assert (code, json.loads(out)["exits"]) == (0, best)
    assert (
        error
        == f"{run} is read at {best} of 2 exits per input, which is best on validation; --eval-exits names others\n"
    )


@pytest.mark.parametrize("eval_exits", [1, 2])
def test_the_json_sums_to_the_recorded_costs(run: Path, eval_exits: int) -> None:
    shown = json.loads(sae("show", run, "--eval-exits", str(eval_exits), "--json")[1])
    recorded = RunRecord(run).read_evaluation().test.at(eval_exits).costs
    for key, value in recorded.items():
        assert shown[key] == value == sum(part[key] for part in shown["parts"])
        assert shown[key] + shown["pruned"][key] == sum(part[key] for part in shown["whole"])
    assert len(shown["members"]) == 3 * eval_exits
    assert shown["drawing"] is None


def test_it_draws_into_a_file(run: Path, tmp_path: Path) -> None:
    assert sae("show", run, "--out", tmp_path / "net.svg")[0] == 0
    assert (tmp_path / "net.svg").read_text().startswith("<svg")
    assert sae("show", run, "--out", tmp_path / "net.png")[0] == 0
    with Image.open(tmp_path / "net.png") as picture:
        assert picture.width > 600


def test_a_recorded_network_is_shown_without_torch(run: Path) -> None:
    code = f"import sys; from sae.cli import app; app(['show', {str(run)!r}], standalone_mode=False)"
    done = python(f"{code}; sys.exit('torch' in sys.modules)")
    assert done.returncode == 0, done.stderr


def test_of_a_study_the_pick_is_shown(tmp_path: Path) -> None:
    study = shutil.copytree(GOLDEN / "study", tmp_path / "study")
    picked = json.loads(sae("pick", study, "--json")[1])
    shown = json.loads(sae("show", study, "--json")[1])
    assert (shown["flops"], shown["exits"]) == (picked["values"]["flops"], picked["exits"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--eval-exits", "9"], "--eval-exits must be one of 1, 2, got 9"),
        (["--out", "net.jpg"], "--out must name a file that ends in .svg or .png, got net.jpg"),
        (["--out", "absent/net.svg"], "the folder of --out must exist"),
    ],
)
def test_mistakes_are_told_in_a_sentence(run: Path, arguments: list[str], message: str) -> None:
    code, _, error = sae("show", run, *arguments)
    assert code == 2
    assert message in error
