import json
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from sae.analysis.selection import select
from sae.analysis.statistics import Spread
from sae.core.table import Table
from sae.records.study import StudyRecord
from sae.report.findings import Findings, find
from sae.report.lead import caveats, receipt_table, study_lead, verdicts
from tests.results import result, run_of, small_config
from tests.studies import StudyBuilder, point, sae
from tests.study_stages import SHIFT, STEP, searched_study, ship, whole_study

METRICS = ("f1", "cc_ece", "nll")
TASK = "classification"
SEEDS = [0.0, 0.01, 0.02, 0.03]


def test_verdicts_say_each_word_once() -> None:
    runs = [run_of(small_config(seed), {}) for seed in range(4)]
    spread = statistics.stdev(SEEDS)
    values = {"f1": Spread(0.9, spread), "cc_ece": Spread(0.9, spread), "nll": Spread(0.5, spread)}
    pick = result("sae/0", values, runs=runs, flops=1e6)
    rival = result("ensemble/0", {name: Spread(0.5, spread) for name in METRICS}, runs=runs, flops=4e6)
    told = "is better than Bob in F1 and worse in CC-ECE, with no significant difference in NLL"
    assert verdicts(pick, rival, "Bob", METRICS, TASK) == told
    assert verdicts(pick, rival, "Bob", METRICS, TASK, "shift") == ""


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
        f"Ship {pick.label}: one network with several inputs and all exits ({pick.settings}), read at all 3 "
        f"exits. It is worse than the best deep ensemble in F1, CC-ECE and NLL, on clean "
        f"and on corrupted images (4 seeds), and needs 1/{ratio:.3g} of its FLOPs."
    )
    better = "It is better than the best standard network in F1, CC-ECE and NLL, on clean and on corrupted images"
    assert f"{better} (4 seeds), and needs 3.33 times its FLOPs." in lead.reasons
    assert any(reason == f"Chosen on validation: {whole.why}." for reason in lead.reasons)


def test_a_cheaper_rival_that_is_not_worse_is_named_beside_the_recommendation(whole: Findings) -> None:
    pick, standard = whole.shown["pick"], whole.shown["standard"]
    alike = replace(standard, test=pick.test, shift=pick.shift)
    warning = (
        "But the best standard network needs only 1/3.33 of its FLOPs and is not significantly worse in any metric."
    )
    assert warning in study_lead(replace(whole, shown={**whole.shown, "standard": alike})).sentence
    assert "But" not in study_lead(whole).sentence


def test_a_confirmed_ensemble_that_validation_did_not_prefer_is_named_where_it_is_better(whole: Findings) -> None:
    other = replace(whole.shown["ensemble"], label="ensemble/9")
    told = study_lead(replace(whole, results=[*whole.results, other])).reasons
    assert f"ensemble/9 ({other.settings}) is better than it in F1, CC-ECE and NLL." in told
    assert f"ensemble/9 ({other.settings}) is better than it in F1, CC-ECE and NLL under corruption." in told
    assert not any(reason.startswith(whole.shown["ensemble"].label) for reason in study_lead(whole).reasons)


def test_the_receipt_holds_means_over_seeds_and_multiples_of_the_pick(whole: Findings) -> None:
    table = receipt_table(whole)
    picked = select(whole.record).pick()
    pick = picked.candidate
    seeds = [pick.values["nll"] + STEP * seed for seed in (1, 2, 3, 4)]
    shown = f"{statistics.mean(seeds):.3f} ± {statistics.stdev(seeds):.3f}"
    assert cells(table, "NLL ↓")[0] == shown
    assert cells(table, "NLL (shift) ↓")[0] == f"{statistics.mean(seeds) + SHIFT:.3f} ± {statistics.stdev(seeds):.3f}"
    others = [40_000 / pick.values["flops"], 900 / pick.values["flops"]]
    assert [text.split("(")[1] for text in cells(table, "MFLOPs ↓")[1:]] == [f"{times:.3g} ×)" for times in others]
    assert cells(table, "ms for 64 samples ↓") == ["0.500", "1.000 (2 ×)", "1.000 (2 ×)"]
    assert cells(table, "file, kB ↓") == ["2", "6 (3 ×)", "6 (3 ×)"]
    assert [column.title for column in table.columns[1:]] == ["the pick", "best deep ensemble", "best standard network"]
    assert any(picked.why in reason for reason in study_lead(whole).reasons)


def test_commands_name_the_folder_as_a_shell_takes_it(whole: Findings) -> None:
    commands = [command.line for command in study_lead(whole).commands]
    assert commands[0] == f"sae export '{whole.record.path}' --out shipped/model.onnx"
    assert commands[2].startswith("sae train --data digits")


def change_receipt(record: StudyRecord, role: str, **changes: object) -> None:
    path = record.path / record.SHIPPED / record.RECEIPT
    receipt = json.loads(path.read_text())
    receipt["rows"][role].update(changes)
    path.write_text(json.dumps(receipt))


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
    assert "receipt.json is damaged (rows.pick.ms: " in caveats(found)[1]
    assert "delete it, and the command that made it makes it again" in caveats(found)[1]


def test_a_pick_without_rivals_is_told_alone(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s", methods=("sae",))
    study.finish(sae(1, 1), [point(0.5, 0.1, 1000)])
    lead = study_lead(find(study.record))
    assert lead.sentence == "Ship sae/0: one network (N=1 K=1 W=1 D=3), read at its last exit (3 of 3)."
    assert lead.receipt is not None
    assert len(lead.receipt.columns) == 2
