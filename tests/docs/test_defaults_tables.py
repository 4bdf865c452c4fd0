"""The tables of docs/defaults.md and docs/estimators.md are those of the stored results."""

from itertools import pairwise

from benchmarks import embeddings, estimators, learning_curves, refit, verdicts
from benchmarks.defaults import SEEDS, contestants_for, read_results, tables
from benchmarks.defaults_tuning import ROUND, input_tables, planned, read_rows, training_tables
from benchmarks.docs_tables import marked
from benchmarks.small_sets import CURVES_TUNED, SETS, VERDICT_SETS, half

from tests.docs.pages import ROOT


def test_the_tables_are_made_from_the_stored_results() -> None:
    page = (ROOT / "docs" / "defaults.md").read_text(encoding="utf-8")
    assert tables(read_results()) in page
    assert training_tables(read_rows()) in page
    for table in input_tables(read_rows()):
        assert table in page


def test_every_reported_set_has_all_seeds_of_all_contestants() -> None:
    results = read_results()
    assert set(results) == {item.name for item in half("reported")}
    for item in half("reported"):
        assert {name: len(values) for name, values in results[item.name].items()} == dict.fromkeys(
            contestants_for(item), len(SEEDS)
        )


def test_nothing_was_tuned_on_a_reported_set() -> None:
    tuned = {row["set"] for row in read_rows()}
    assert tuned == {item.name for item in half("tuned")}
    assert not tuned & set(read_results())
    assert len(half("tuned")) + len(half("reported")) == len(SETS)


def test_the_last_round_of_tuning_is_complete() -> None:
    stored = {(row["candidate"], row["set"], row["seed"]) for row in read_rows() if row["round"] == ROUND}
    assert stored == set(planned())


def test_the_tables_of_the_estimators_are_made_from_the_stored_results() -> None:
    page = (ROOT / "docs" / "estimators.md").read_text(encoding="utf-8")
    results = estimators.read_results()
    assert estimators.tables(results) in page
    assert set(results) == {item.name for item in estimators.reported_tables()}
    for name, found in results.items():
        searched = {} if name in estimators.NOT_SEARCHED else {estimators.SEARCHED: 1}
        assert {contestant: len(values) for contestant, values in found.items()} == {
            **dict.fromkeys(estimators.CONTESTANTS, len(estimators.SEEDS)),
            **searched,
        }


def test_the_table_of_embedded_numbers_is_made_from_the_stored_results() -> None:
    rows = embeddings.read_rows()
    assert {(row["candidate"], row["set"], row["seed"]) for row in rows} == set(embeddings.planned())
    assert embeddings.table(rows) in (ROOT / "docs" / "estimators.md").read_text(encoding="utf-8")


def test_the_table_of_networks_that_are_trained_again_is_made_from_the_stored_results() -> None:
    stored = refit.read_results()
    assert {name: {method: len(runs) for method, runs in found.items()} for name, found in stored.items()} == (
        dict.fromkeys(refit.NAMES, dict.fromkeys(refit.METHODS, len(refit.SEEDS)))
    )
    for name, table in refit.tables().items():
        assert marked(name, table) in (ROOT / "docs" / "defaults.md").read_text(encoding="utf-8")


def test_the_tables_of_learning_curves_are_made_from_the_stored_results() -> None:
    results = learning_curves.read_results()
    assert learning_curves.tables(results) in (ROOT / "docs" / "defaults.md").read_text(encoding="utf-8")
    steps = {(step["set"], step["method"], step["smaller"], step["larger"]) for step in results["steps"]}
    for (name, method), rows in learning_curves.curves(results["rows"]):
        sizes = sorted({row["size"] for row in rows})
        assert {(name, method, *pair) for pair in pairwise(sizes)} <= steps


def test_the_table_of_verdicts_is_made_from_the_stored_results() -> None:
    rows = verdicts.read_rows()
    assert verdicts.table(rows) in (ROOT / "docs" / "defaults.md").read_text(encoding="utf-8")
    assert {row["set"] for row in rows} == {item.name for item in VERDICT_SETS}
    assert not {item.name for item in VERDICT_SETS} & {*CURVES_TUNED, *(item.name for item in half("tuned"))}
