import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sae.analysis.contestants import read_contestant
from sae.analysis.ensemble_equivalent import EnsembleEquivalent
from sae.cli import app
from sae.cli.compare import described
from sae.data.catalogue import resolve
from sae.records.run import RunRecord
from sae.training.predictions import keep_predictions
from sae.training.run import train

SMALL = {"data": "digits", "backbone": {"name": "fc", "depth": 2}, "train": {"epochs": 1}}


def compare(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of an SAE, and one of an ensemble of two, hardly trained."""
    place = tmp_path_factory.mktemp("compared")
    for name, seed, method in (
        ("sae/0", 0, {"name": "sae", "inputs": 2, "exits": 2}),
        ("sae/1", 1, {"name": "sae", "inputs": 2, "exits": 2}),
        ("ensemble/0", 0, {"name": "ensemble", "members": 2}),
    ):
        train(resolve(SMALL, {"method": method, "seed": seed}), place / name)
        keep_predictions(place / name)
    return place


def test_a_comparison_has_the_means_that_the_runs_recorded(folder: Path) -> None:
    result = compare(folder / "sae", "--with", folder / "ensemble", "--json", "--margin", 0.01)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    recorded = [RunRecord(folder / "sae" / seed).read_evaluation().test.chosen.metrics for seed in "01"]
    for name in ("nll", "accuracy", "brier", "ece", "cc_ece"):
        assert found["metrics"][name]["first"] == pytest.approx(sum(run[name] for run in recorded) / 2, rel=1e-6)
    nll = found["metrics"]["nll"]
    assert nll["difference"] == pytest.approx(nll["first"] - nll["second"])
    assert nll["low"] < nll["difference"] < nll["high"]
    assert nll["matches"] == (nll["high"] < 0.01)
    assert set(found["ensemble_equivalent"]) == {"members", "low", "high", "nll_scaled"}
    assert found["first"] == {"runs": str(folder / "sae"), "seeds": [0, 1], "eval_exits": [2, 2]}


def test_a_table_says_which_is_better_and_how_many_members_it_is_worth(folder: Path) -> None:
    result = compare(folder / "sae", "--with", folder / "ensemble", "--margin", 0.5)
    assert result.exit_code == 0, result.output
    assert "nll_scaled" in result.stdout
    assert "of the deep ensemble" in " ".join(result.stdout.split())
    assert "with a single seed the intervals cover the choice of the test samples only" in result.stderr


@pytest.mark.parametrize(
    ("members", "low", "high", "said"),
    [
        (2.25, 1.9, math.inf, "2.2 members of the deep ensemble (95 % interval: 1.9 to more than 4;"),
        (math.inf, 3.0, math.inf, "more than 4 members of the deep ensemble (95 % interval: 3.0 to more than 4;"),
        (-math.inf, -math.inf, 1.0, "less than 1 member of the deep ensemble (95 % interval: less than 1 to 1.0;"),
        (1.0, -math.inf, 2.0, "1.0 member of the deep ensemble (95 % interval: less than 1 to 2.0;"),
        (2.0, -math.inf, math.inf, "not enough evidence to tell how many members of the deep ensemble have the scaled"),
    ],
)
def test_ends_of_an_interval_that_the_ensemble_does_not_reach_are_said_in_words(
    members: float, low: float, high: float, said: str
) -> None:
    told = described("runs/sae", EnsembleEquivalent(members, low, high, (0.4, 0.3, 0.25, 0.2)))
    assert said in told
    assert "1 to 4 members have 0.4000, 0.3000, 0.2500, 0.2000" in told


def test_other_exits_of_the_same_runs_can_be_compared(folder: Path) -> None:
    result = compare(folder / "sae", "--with", folder / "sae", "--eval-exits", 1, "--json", "--metrics", "nll")
    found = json.loads(result.stdout)
    one = [RunRecord(folder / "sae" / seed).read_evaluation().test.at(1).metrics["nll"] for seed in "01"]
    assert found["metrics"]["nll"]["first"] == pytest.approx(sum(one) / 2, rel=1e-6)
    assert found["first"]["eval_exits"] == [1, 1]
    assert found["ensemble_equivalent"] is None


def test_runs_of_one_side_differ_in_their_seed_only(folder: Path) -> None:
    result = compare(folder, "--with", folder / "ensemble")
    assert result.exit_code == 2
    assert "the runs of one side must differ in nothing but their seed" in result.stderr


def test_every_seed_may_have_a_teacher_of_its_own(folder: Path, tmp_path: Path) -> None:
    for seed, teacher in ((0, "sae/0"), (1, "sae/1")):
        taught = {"method": {"name": "standard"}, "seed": seed, "teacher": {"run": str(folder / teacher)}}
        train(resolve(SMALL, taught), tmp_path / str(seed))
        keep_predictions(tmp_path / str(seed))
    assert read_contestant([tmp_path]).seeds == (0, 1)


def test_a_run_is_not_counted_twice(folder: Path) -> None:
    result = compare(folder / "sae" / "0", folder / "sae" / "0", "--with", folder / "ensemble")
    assert result.exit_code == 2
    assert "must have different seeds, got 0, 0" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sae", "--with", "ensemble", "--metrics", "nil"), "the metric of a comparison must be one of"),
        (
            ("sae", "--with", "ensemble", "--eval-exits", "7"),
            "must be read at one of its numbers of exits, 1, 2; got 7",
        ),
        (("sae", "--with", "nowhere"), "nowhere does not exist"),
        (("sae", "--with", "empty"), "empty is not a run folder and holds none"),
        (("sae", "--with", "ensemble", "--ensemble", "sae"), "sae must be a deep ensemble"),
        (("sae",), "--with"),
    ],
)
def test_mistakes_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(folder)
    Path("empty").mkdir(exist_ok=True)
    result = compare(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_runs_without_predictions_say_how_to_add_them(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "sae" / "0", tmp_path / "run")
    (tmp_path / "run" / RunRecord.PREDICTIONS).unlink()
    result = compare(tmp_path / "run", "--with", folder / "ensemble")
    assert result.exit_code == 2
    assert "--keep-predictions" in result.stderr


def test_a_contestant_is_read_at_the_trained_exits(folder: Path) -> None:
    found = read_contestant([folder / "ensemble"])
    assert (found.eval_exits, found.has_members) == ((1,), True)


def test_the_share_of_the_gap_that_a_network_closes_is_said(folder: Path) -> None:
    given = (folder / "sae", "--with", folder / "ensemble", "--single", folder / "sae")
    found = json.loads(compare(*given, "--json").stdout)["gap_shares"]
    assert set(found) == {"nll", "nll_scaled"}
    result = compare(*given)
    assert result.exit_code == 0, result.output
    assert "gap between the single network and the ensemble" in " ".join(result.stdout.split())


def test_a_gap_needs_an_ensemble(folder: Path) -> None:
    result = compare(folder / "sae", "--with", folder / "sae", "--single", folder / "sae")
    assert result.exit_code == 2
    assert "--single needs a deep ensemble" in result.stderr
