import json
import math
import re
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from sae.analysis.baselines import compare_with_baselines
from sae.analysis.ensemble_equivalent import EnsembleEquivalent
from sae.analysis.evidence import Evidence
from sae.analysis.selection import select
from sae.analysis.statistics import Spread
from sae.core.table import Table
from sae.records.baselines import Baselines, Measured
from sae.records.receipt import PICK
from sae.records.study import StudyRecord
from sae.report.findings import Findings, find
from sae.report.lead import caveats, study_lead, verdicts, worth_text
from sae.report.receipt import receipt_table, worth_range
from tests.studies import StudyBuilder, point, sae
from tests.study_stages import SHIFT, STEP, confirmed_study, keep_predictions, searched_study, ship, whole_study

NLL = Evidence("nll", "test", -0.1, -0.2, -0.01, 0.001, 0.01, True, (4, 4), 540)
WORSE = replace(NLL, metric="cc_ece", value=0.1)
ALIKE = replace(NLL, metric="f1", p=0.5, low=-0.004, high=0.005)
UNKNOWN = replace(NLL, metric="f1", p=0.5)


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ([NLL, WORSE, ALIKE], "is better than Bob in NLL and worse in CC-ECE, with no significant difference in F1"),
        ([NLL, UNKNOWN], "is better than Bob in NLL, with not enough evidence to tell in F1"),
        ([WORSE], "is worse than Bob in CC-ECE"),
        ([ALIKE], "shows no significant difference from Bob in F1"),
        (
            [ALIKE, replace(UNKNOWN, metric="nll")],
            "shows no significant difference from Bob in F1, and there is not enough evidence to tell in NLL",
        ),
        ([UNKNOWN], "may be better or worse than Bob in F1: there is not enough evidence to tell"),
    ],
)
def test_verdicts_say_each_word_once(evidence: list[Evidence], words: str) -> None:
    assert verdicts(evidence, "Bob") == words


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
        f"exits. It is worse than the best deep ensemble in F1, CC-ECE and NLL (4 seeds), "
        f"and needs 1/{ratio:.3g} of its FLOPs."
    )
    better = "is better than the best standard network in F1, CC-ECE and NLL (4 seeds)"
    assert f"It {better}, and needs 3.33 times its FLOPs." in lead.reasons
    assert f"Under corruption it {better}." in lead.reasons
    rules = next(rule for rule in lead.rules if "Holm" in rule)
    assert "for the 12 comparisons" in rules
    assert "(0.01 of F1, 0.01 of CC-ECE and 0.01 of NLL)" in rules
    assert any("not kept" in rule and "Welch" in rule for rule in lead.rules)
    assert any(reason == f"Chosen on validation: {whole.why}." for reason in lead.reasons)


@pytest.mark.parametrize(("ratio", "is_said"), [(3.1, True), (0.5, True), (1.05, False)])
def test_the_costs_of_other_seeds_are_named_where_they_are_not_those_of_the_network_to_ship(
    whole: Findings, ratio: float, is_said: bool
) -> None:
    pick = whole.shown["pick"]
    costs = {**pick.costs, "flops": Spread(ratio * whole.chosen["pick"].values["flops"], None)}
    sentence = study_lead(replace(whole, shown={**whole.shown, "pick": replace(pick, costs=costs)})).sentence
    told = f"the networks that were compared need on average {ratio:.3g} times the FLOPs of the one to ship"
    assert (told in sentence) == is_said


def test_a_cheaper_rival_that_is_not_worse_is_named_beside_the_recommendation(whole: Findings) -> None:
    pick, standard = whole.shown["pick"], whole.shown["standard"]
    alike = replace(standard, test=pick.test, shift=pick.shift)
    warning = (
        "But the best standard network needs only 1/3.33 of its FLOPs, and there is not enough evidence that it is "
        "worse in any metric."
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
    trial = next(item for item in whole.candidates if item.network == pick.network)
    seeds = [trial.values["nll"] + STEP * seed for seed in (1, 2, 3, 4)]
    shown = f"{statistics.mean(seeds):.3f} ± {statistics.stdev(seeds):.3f}"
    assert cells(table, "NLL ↓")[0] == shown
    assert cells(table, "NLL (shift) ↓")[0] == f"{statistics.mean(seeds) + SHIFT:.3f} ± {statistics.stdev(seeds):.3f}"
    others = [40_000 / pick.values["flops"], 900 / pick.values["flops"]]
    assert [text.split("(")[1] for text in cells(table, "MFLOPs as counted in the paper ↓")[1:]] == [
        f"{times:.3g} ×)" for times in others
    ]
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
    assert caveats(found)[-1].startswith("Time is not shown: the receipt of the shipped model is about other networks")
    assert "ms for 64 samples ↓" not in [row[0].value for row in receipt_table(found).rows]


def test_a_receipt_with_something_else_than_numbers_is_told(tmp_path: Path) -> None:
    study = searched_study(tmp_path / "s", shift=False)
    ship(study)
    change_receipt(study.record, "pick", ms="fast")
    found = find(study.record)
    assert found.receipt is None
    (told,) = (text for text in caveats(found) if "damaged" in text)
    assert "receipt.json is damaged (rows.pick.ms: " in told
    assert "delete it, and the command that made it makes it again" in told


def test_a_pick_without_rivals_is_told_alone(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s", methods=("sae",))
    study.finish(sae(1, 1), [point(0.5, 0.1, 1000)])
    lead = study_lead(find(study.record))
    assert lead.sentence == (
        "Too little evidence to recommend a network: 1 trial finished (a choice needs 5) and the leader was trained on "
        "0 new seeds (a recommendation needs 2). So far sae/0 leads: one network (N=1 K=1 W=1 D=3), read at its last "
        "exit (3 of 3)."
    )
    assert lead.receipt is not None
    assert len(lead.receipt.columns) == 2
    assert "Rivals" not in lead.receipt.caption


def test_kept_predictions_give_intervals_seeds_samples_temperatures_and_the_worth_in_members(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "s", shift=False).record
    keep_predictions(find(record).confirmed)
    found = find(record)
    lead = study_lead(found)
    assert "(4 seeds, 300 test samples)" in lead.sentence
    assert re.search(r"It is worth \S+ members? \(\S+ to \S+\) of the deep ensemble ensemble/0 \(M=4", lead.sentence)
    assert lead.receipt is not None
    worth = cells(lead.receipt, "worth, in members of ensemble/0 ↑")
    assert worth[1] == "all of them"
    assert float(worth[0].split()[0]) == pytest.approx(2.0, abs=0.5)
    assert re.fullmatch(r"–", cells(lead.receipt, "NLL, difference")[0])
    assert re.fullmatch(r"[+−]0\.\d+ \([+−]0\.\d+ to [+−]0\.\d+\)", cells(lead.receipt, "NLL, difference")[1])
    assert "fitted for each run on 300 validation samples" in lead.receipt.caption
    scaled = found.headline.scalings["pick"].metrics["nll"].mean
    assert float(cells(lead.receipt, "NLL, scaled ↓")[0].split()[0]) == pytest.approx(scaled, abs=1e-3)
    assert "paired bootstrap" in " ".join(lead.rules)
    open_to_both_sides = EnsembleEquivalent(math.inf, -math.inf, math.inf, (0.4, 0.3, 0.25, 0.2))
    vars(found)["headline"] = replace(found.headline, worth={PICK: open_to_both_sides})
    assert worth_text(found).startswith("There is not enough evidence to tell how many members of the deep ensemble")
    assert worth_range(open_to_both_sides) == "not enough evidence to tell"


VALUES = {"nll": 0.2, "accuracy": 0.8, "f1": 0.8, "cc_ece": 0.01}


@pytest.mark.parametrize("samples", ["same", "others"])
def test_a_baseline_that_is_better_on_the_same_samples_comes_first(tmp_path: Path, samples: str) -> None:
    record = confirmed_study(tmp_path / "s", shift=False).record
    keep_predictions(find(record).confirmed)
    record.write_baselines(trivial(samples))
    own = compare_with_baselines(record, select(record).pick().candidate)
    losses = [0.9 * loss for loss in own[1].losses] if own else [0.1] * 300
    better = Measured(name="gradient boosting", losses=tuple(losses), val={"nll": 0.1, "accuracy": 0.9}, test=VALUES)
    record.write_baselines(trivial(samples, better))
    lead = study_lead(find(record))
    is_said = lead.sentence.startswith("Gradient boosting is better here: NLL 0.1 against ")
    assert is_said == (samples == "same")
    assert lead.receipt is not None
    assert lead.receipt.columns[-1].title == "gradient boosting"
    assert cells(lead.receipt, "configuration")[-1] == "scikit-learn, CPU"
    assert cells(lead.receipt, "NLL ↓")[-1] == "0.200"
    assert cells(lead.receipt, "MFLOPs as counted in the paper ↓")[-1] == "–"
    assert all(len(row) == len(lead.receipt.columns) for row in lead.receipt.rows)


def trivial(samples: str, *more: Measured) -> Baselines:
    """Baselines of which the trivial one is worse than any network."""
    shares = Measured(name="class shares", losses=(9.0,) * 300, val={"nll": 9.0, "accuracy": 0.1}, test=VALUES)
    return Baselines(task="classification", samples=samples, found=(shares, *more), num_fitted=9, num_training=9)


def test_the_receipt_names_the_costs_of_the_paper_and_those_as_shipped(whole: Findings) -> None:
    table, pick = receipt_table(whole), whole.chosen["pick"].values
    for measure, key in (("MFLOPs as counted in the paper ↓", "flops"), ("MFLOPs as shipped ↓", "shipped_flops")):
        assert float(cells(table, measure)[0]) == pytest.approx(pick[key] / 1e6)
