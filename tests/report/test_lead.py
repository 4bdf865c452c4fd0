import statistics
from pathlib import Path

import pytest

from sae.analysis.results import Result, Spread
from sae.analysis.selection import select
from sae.record import RunRecord
from sae.report.content import Table
from sae.report.findings import Findings, find
from sae.report.lead import caveats, claim, describe, receipt_table, study_lead
from sae.study_record import StudyRecord
from tests.results import result
from tests.studies import StudyBuilder, point, sae
from tests.study_stages import SHIFT, STEP, searched_study, ship, whole_study

METRICS = ("f1", "cc_ece", "nll")
TASK = "classification"
SEEDS = [0.0, 0.01, 0.02, 0.03]


def over_seeds(mean: float, runs: int = 4) -> Result:
    """A configuration whose every metric has this mean, and the spread of `SEEDS`."""
    values = {name: Spread(mean, statistics.stdev(SEEDS) if runs > 1 else None) for name in METRICS}
    return result("x/0", values, runs=[RunRecord(Path(str(seed))) for seed in range(runs)])


def test_a_claim_says_each_verdict_once_and_the_ratio() -> None:
    runs = [RunRecord(Path(str(seed))) for seed in range(4)]
    spread = statistics.stdev(SEEDS)
    values = {"f1": Spread(0.9, spread), "cc_ece": Spread(0.9, spread), "nll": Spread(0.5, spread)}
    pick = result("sae/0", values, runs=runs, flops=1e6)
    rival = result("ensemble/0", {name: Spread(0.5, spread) for name in METRICS}, runs=runs, flops=4e6)
    told = "better than the best deep ensemble in F1, worse than it in CC-ECE and not told apart from it in NLL"
    assert claim(pick, rival, "ensemble", METRICS, TASK) == f"{told}, at 1/4 of its FLOPs"
    assert claim(rival, pick, "standard", METRICS, TASK).endswith("at 4 times its FLOPs")
    alone = claim(pick, over_seeds(0.5, runs=1), "standard", METRICS, TASK)
    assert alone == "at 1 times the FLOPs of the best standard network; one seed tells nothing of which is better"


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ({"name": "standard"}, "a standard network (W=1 D=3)"),
        ({"name": "ensemble", "members": 4}, "a deep ensemble (M=4 W=1 D=3)"),
        ({"name": "sae", "inputs": 1, "exits": 1}, "one network that chose its exit (N=1 K=1 W=1 D=3) read at 1 exit"),
        ({"name": "sae", "inputs": 1, "exits": 2}, "one network with early exits (N=1 K=2 W=1 D=3) read at 2 exits"),
    ],
)
def test_a_configuration_is_told_in_words(method: dict[str, object], words: str) -> None:
    assert describe(result("x/0", {}, method=method)) == words


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return find(whole_study(tmp_path_factory.mktemp("lead") / "my study").record)


def cells(table: Table, measure: str) -> list[str]:
    return [str(cell.value) for cell in next(row for row in table.rows if row[0].value == measure)[1:]]


def test_the_sentence_names_the_pick_its_verdict_and_the_ratio_of_flops(whole: Findings) -> None:
    pick, rival = whole.shown["pick"], whole.shown["ensemble"]
    ratio = rival.costs["flops"].mean / pick.costs["flops"].mean
    lead = study_lead(whole)
    assert lead.sentence == (
        f"Ship {pick.label}, a single architecture ensemble between the known ones ({pick.settings}) read at "
        f"{pick.eval_exits} exits: worse than the best deep ensemble in F1, CC-ECE and NLL, at 1/{ratio:.3g} of its "
        "FLOPs."
    )
    assert "It is better than the best standard network in F1, CC-ECE and NLL, at 3.33 times its FLOPs." in lead.reasons
    assert any(reason.startswith("It is worse than the best deep ensemble") for reason in lead.reasons)
    assert any(reason.startswith("Chosen on validation: nearest to the ideal of nll") for reason in lead.reasons)


def test_the_receipt_holds_means_over_seeds_and_multiples_of_the_pick(whole: Findings) -> None:
    table = receipt_table(whole)
    pick, why = select(whole.record).pick()
    seeds = [pick.values["nll"] + STEP * seed for seed in (1, 2, 3, 4)]
    shown = f"{statistics.mean(seeds):.3f} ± {statistics.stdev(seeds):.3f}"
    assert cells(table, "NLL ↓")[0] == shown
    assert cells(table, "NLL (shift) ↓")[0] == f"{statistics.mean(seeds) + SHIFT:.3f} ± {statistics.stdev(seeds):.3f}"
    others = [40_000 / pick.values["flops"], 900 / pick.values["flops"]]
    assert [text.split("(")[1] for text in cells(table, "MFLOPs ↓")[1:]] == [f"{times:.3g} ×)" for times in others]
    assert cells(table, "ms for 64 samples ↓") == ["0.500", "1.000 (2 ×)", "1.000 (2 ×)"]
    assert cells(table, "file, kB ↓") == ["2", "6 (3 ×)", "6 (3 ×)"]
    assert [column.title for column in table.columns[1:]] == ["the pick", "best ensemble", "best standard network"]
    assert any(why in reason for reason in study_lead(whole).reasons)


def test_commands_name_the_folder_as_a_shell_takes_it(whole: Findings) -> None:
    commands = [command for command, _ in study_lead(whole).commands]
    assert commands[0] == f"sae export '{whole.record.path}' --out shipped/model.onnx"
    assert commands[2].startswith("sae train --data digits")


def change_receipt(record: StudyRecord, role: str, **changes: object) -> None:
    folder = RunRecord(record.path / record.SHIPPED)
    receipt = folder.read_json(record.RECEIPT)
    receipt["rows"][role].update(changes)
    folder.write_json(record.RECEIPT, receipt)


@pytest.mark.parametrize("role", ["pick", "ensemble"])
@pytest.mark.parametrize("changes", [{"trial": "sae/77"}, {"eval_exits": 77}])
def test_a_receipt_of_other_configurations_is_not_shown(role: str, changes: dict[str, object], tmp_path: Path) -> None:
    study = searched_study(tmp_path / "s", shift=False)
    ship(study)
    assert find(study.record).receipt is not None
    change_receipt(study.record, role, **changes)
    found = find(study.record)
    assert found.receipt is None
    assert found.lost == {}
    assert caveats(found)[-1].startswith("Time was not measured")
    assert "ms for 64 samples ↓" not in [row[0].value for row in receipt_table(found).rows]


def test_a_receipt_with_something_else_than_numbers_is_told(tmp_path: Path) -> None:
    study = searched_study(tmp_path / "s", shift=False)
    ship(study)
    change_receipt(study.record, "pick", ms="fast")
    found = find(study.record)
    assert found.receipt is None
    assert "receipt.json does not hold what it should" in caveats(found)[1]
    assert "delete it, and the command that made it makes it again" in caveats(found)[1]


def test_a_pick_without_rivals_is_told_alone(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s", methods=("sae",))
    study.finish(sae(1, 1), [point(0.5, 0.1, 1000)])
    lead = study_lead(find(study.record))
    assert lead.sentence == "Ship sae/0, one network that chose its exit (N=1 K=1 W=1 D=3) read at 1 exit."
    assert lead.receipt is not None
    assert len(lead.receipt.columns) == 2
