import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sae.analysis.candidates import Candidate, candidates
from sae.analysis.results import (
    Result,
    make_result,
    means_by_set,
    run_results,
    study_results,
    summarise,
)
from sae.analysis.statistics import Spread
from sae.records.run import Run, RunRecord, read_run
from sae.records.study import Confirmed, ConfirmedItem, StudyRecord
from tests.results import result, small_config, write_run, write_shift
from tests.studies import small_study
from tests.study_stages import SETS
from tests.study_stages import write_shift as write_worse

SEEDS = (1, 2, 3)
NLL = {1: 0.5, 2: 0.7, 3: 1.2}
FULL = [(1.0, 0.2), (9.0, 9.0), (9.0, 9.0)]
"""Mean and standard deviation over corrupted sets at every K′."""
SAE = {"name": "sae", "inputs": 2, "exits": 2}


def metrics(seed: int) -> list[dict[str, float]]:
    """The nll at K′ = 1 … 3 is that of the seed plus K′ − 1."""
    return [{"nll": NLL[seed] + k, "f1": 0.5} for k in range(3)]


def confirmed_study(path: Path, failed: tuple[int, ...] = ()) -> StudyRecord:
    """sae/0 at K′ = 1 and 2 and standard/0, on three seeds."""
    record = small_study(path).record
    chosen = [item for item in found_in(record) if item.eval_exits <= 2 and item.label in ("sae/0", "standard/0")]
    items = []
    for item in chosen:
        runs = [record.confirmed_run(item.run.record.path, seed) for seed in SEEDS]
        for run, seed in zip(runs, SEEDS, strict=True):
            if not run.path.exists():
                config = item.config.model_copy(update={"seed": seed})
                write_run(run.path, config, metrics(seed), "failed" if seed in failed else "finished")
        items.append(summarise(item, [read_run(run, with_shift=True) for run in runs]))
    confirmed = Confirmed(objectives=("nll",), seeds=SEEDS, front=tuple(items))
    record.write_json(record.CONFIRMED, confirmed.model_dump(mode="json"))
    return record


def found_in(record: StudyRecord) -> list[Candidate]:
    return candidates(record.read_runs())


def written(record: StudyRecord) -> tuple[ConfirmedItem, ...]:
    """What the study has in its file."""
    confirmed = record.read_confirmed()
    assert confirmed is not None
    return confirmed.front


def again(runs: Sequence[Run]) -> list[Run]:
    """The runs as their folders are now."""
    return [read_run(run.record, with_shift=True) for run in runs]


def test_a_result_is_over_the_seeds(tmp_path: Path) -> None:
    results, missing = study_results(confirmed_study(tmp_path / "s"))
    assert missing == []
    assert [(item.label, item.eval_exits) for item in results] == [("sae/0", 1), ("sae/0", 2), ("standard/0", 1)]
    second = results[1]
    values = np.array([NLL[seed] + 1 for seed in SEEDS])
    assert second.test["nll"].mean == pytest.approx(values.mean())
    assert second.test["nll"].std == pytest.approx(values.std(ddof=1))
    assert second.costs == {
        "flops": Spread(200.0, 0.0),
        "params": Spread(20.0, 0.0),
        "shipped_flops": Spread(200.0, 0.0),
        "shipped_params": Spread(20.0, 0.0),
    }
    assert (second.kind, second.settings, second.exits) == ("I/B", "N=2 K=2 W=1 D=3", 2)
    assert (len(second.runs), second.failed, second.active) == (3, 0, (0, 1, 1))
    assert second.seconds == Spread(60.0, 0.0)
    assert second.shift is None


def test_results_are_the_numbers_that_the_study_wrote(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "s")
    stored = json.loads((record.path / record.CONFIRMED).read_text())["front"]
    for item, found in zip(stored, study_results(record)[0], strict=True):
        assert item["test"] == {key: spread.describe() for key, spread in found.test.items()}
        assert item["costs"] == {key: spread.describe() for key, spread in found.costs.items()}
        assert item["seconds"] == {"mean": 60.0, "std": 0.0}
        assert (item["shift"], item["shift_std_over_sets"]) == (None, None)


def test_a_summary_begins_with_the_candidate(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "s")
    first, stored = found_in(record)[0].describe(), json.loads((record.path / record.CONFIRMED).read_text())["front"]
    assert {key: stored[0][key] for key in first} == first
    assert [Path(path).name for path in stored[0]["confirmed_in"]] == ["seed-1", "seed-2", "seed-3"]


def test_a_study_may_be_moved(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "before")
    expected = [item.test for item in study_results(record)[0]]
    shutil.move(record.path, tmp_path / "after")
    assert [item.test for item in study_results(StudyRecord.open(tmp_path / "after"))[0]] == expected


def test_a_study_without_confirmed_runs_has_no_results(tmp_path: Path) -> None:
    record = small_study(tmp_path / "s").record
    assert study_results(record) == ([], [])


def test_failed_seeds_are_counted_not_used(tmp_path: Path) -> None:
    found = study_results(confirmed_study(tmp_path / "s", failed=(2,)))[0][0]
    assert (len(found.runs), found.failed) == (2, 1)
    assert found.test["nll"].mean == pytest.approx((0.5 + 1.2) / 2)


def test_a_damaged_run_counts_as_failed(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "s")
    run = study_results(record)[0][0].runs[0].record
    (run.path / run.METRICS).write_text("{")
    assert [(len(item.runs), item.failed) for item in study_results(record)[0]] == [(2, 1), (2, 1), (3, 0)]


def test_a_configuration_without_a_finished_run_is_named_instead(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "s", failed=SEEDS)
    assert study_results(record) == ([], ["sae/0", "standard/0"])
    first = written(record)[0]
    assert (first.seeds, first.failed, first.test, first.costs, first.seconds) == (0, 3, {}, {}, None)
    assert (first.shift, first.shift_std_over_sets) == (None, None)


def test_the_file_and_the_page_count_the_same_runs(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "s")
    runs = study_results(record)[0][1].runs
    damaged, short = (run.record for run in runs[:2])
    (damaged.path / damaged.METRICS).write_text("{")
    stored = json.loads((short.path / short.METRICS).read_text())
    for split in stored.values():
        split["by_exits"] = split["by_exits"][:1]
        split["exits"] = 1
    short.write_json(short.METRICS, stored)
    assert read_run(short).state == "finished"
    item = next(item for item in found_in(record) if (item.label, item.eval_exits) == ("sae/0", 2))
    summary, shown = summarise(item, again(runs)), study_results(record)[0][1]
    assert (summary.seeds, summary.failed) == (len(shown.runs), shown.failed) == (1, 2)
    assert summary.test["nll"].model_dump() == shown.test["nll"].describe()


def test_the_deviation_over_sets_is_not_the_one_over_seeds(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "s")
    runs = study_results(record)[0][0].runs
    for run, (mean, std) in zip(runs, [(1.0, 0.2), (2.0, 0.4), (3.0, 0.9)], strict=True):
        write_shift(run.record, [(mean, std), *FULL[1:]])
    found = study_results(record)[0][0]
    assert found.shift is not None
    assert found.shift["nll"] == Spread(2.0, 1.0)
    assert found.shift_over_sets() == {"nll": Spread(2.0, 0.5)}
    assert len(found.shifted) == 3
    assert found.get("nll", "shift") == Spread(2.0, 1.0)
    assert found.get("flops", "shift") == found.costs["flops"]
    item = next(item for item in found_in(record) if item.label == "sae/0")
    summary = summarise(item, again(runs))
    assert summary.shift is not None
    assert summary.shift_std_over_sets is not None
    assert summary.shift["nll"].model_dump() == {"mean": 2.0, "std": 1.0}
    assert summary.shift_std_over_sets["nll"].mean == 0.5


def test_runs_that_were_not_measured_under_shift_are_not_in_its_mean(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "s")
    write_shift(study_results(record)[0][0].runs[0].record, FULL)
    found = study_results(record)[0][0]
    assert found.shift == {"nll": Spread(1.0, None)}
    assert (len(found.shifted), len(found.runs)) == (1, 3)


def test_a_damaged_file_of_corrupted_sets_is_left_out_but_not_its_run(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "s")
    first, second, third = (run.record for run in study_results(record)[0][0].runs)
    write_shift(first, FULL)
    (second.path / second.SHIFT["test"]).write_text("{")
    write_shift(third, FULL[:2])
    found = study_results(record)[0][0]
    assert (len(found.runs), len(found.shifted), found.failed) == (3, 1, 0)
    assert found.shift == {"nll": Spread(1.0, None)}


def test_a_run_with_numbers_that_are_not_finite_is_left_out_of_a_result(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / str(seed), small_config(seed, name="standard"), metrics(seed)) for seed in SEEDS]
    text = (runs[0].path / runs[0].METRICS).read_text().replace(json.dumps(0.5), "NaN")
    (runs[0].path / runs[0].METRICS).write_text(text)
    (found,) = run_results(runs)
    assert found.test["nll"].mean == pytest.approx((0.7 + 1.2) / 2)
    assert found.label == "2, 3"


def test_runs_that_differ_only_in_their_seed_are_one_result(tmp_path: Path) -> None:
    two, one = (small_config(name="sae", inputs=inputs, exits=2) for inputs in (2, 1))
    runs = [write_run(tmp_path / f"a{seed}", two.model_copy(update={"seed": seed}), metrics(seed)) for seed in SEEDS]
    runs.insert(1, write_run(tmp_path / "b", one, metrics(1)))
    first, second = run_results(runs)
    assert (first.label, first.eval_exits, first.kind) == ("a1, a2, a3", 1, "I/B")
    assert first.test["nll"].mean == pytest.approx(np.mean(list(NLL.values())))
    assert (second.label, second.test["nll"]) == ("b", Spread(0.5, None))


def test_loose_runs_are_read_where_their_mean_is_best_on_validation(tmp_path: Path) -> None:
    values = {0: [0.5, 0.6, 0.9], 1: [0.9, 0.6, 0.9]}  # the first alone would be read at 1
    config = small_config(name="sae", inputs=2, exits=3)
    runs = [
        write_run(
            tmp_path / f"a{seed}", config.model_copy(update={"seed": seed}), [{"nll": nll} for nll in values[seed]]
        )
        for seed in values
    ]
    assert [item.eval_exits for item in run_results(runs)] == [2]
    assert [item.eval_exits for item in run_results(runs[:1])] == [1]


def test_a_seed_counts_once(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, small_config(1, name="standard"), metrics(1)) for name in "ab"]
    (found,) = run_results([*runs, runs[0]])
    assert (found.label, len(found.runs), found.failed) == ("a", 1, 0)


def test_loose_runs_that_failed_are_counted_with_their_config(tmp_path: Path) -> None:
    config = small_config(name="standard")
    good = write_run(tmp_path / "a", config, metrics(1))
    bad = write_run(tmp_path / "b", config.model_copy(update={"seed": 1}), metrics(2), "failed")
    alone = write_run(tmp_path / "c", small_config(name="ensemble"), metrics(2), "failed")
    (found,) = run_results([bad, good, alone, RunRecord(tmp_path / "nothing")])
    assert (found.label, len(found.runs), found.failed) == ("a", 1, 1)


def test_labels_that_are_alike_get_the_names_of_their_parents(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / name / "seed-1", small_config(name=name), metrics(1)) for name in ("ensemble", "standard")
    ]
    assert [item.label for item in run_results(runs)] == ["ensemble/seed-1", "standard/seed-1"]


def test_what_was_not_recorded_is_none() -> None:
    assert result("x", {"nll": 1.0}).get("f1") is None
    assert result("x", {"nll": 1.0}).get("nll", "shift") is None


def over(runs: list[RunRecord], eval_exits: int = 2) -> Result:
    return make_result("x", [read_run(run, with_shift=True) for run in runs], 0, eval_exits)


def nll_by_set(run: RunRecord, exits: int) -> list[float]:
    shift = run.read_shift("test")
    assert shift is not None
    return [item.metrics["nll"] for item in shift.at(exits).sets]


@pytest.fixture
def shifted(tmp_path: Path) -> list[RunRecord]:
    """Three seeds with four corrupted sets each."""
    found = []
    for seed in range(3):
        run = write_run(tmp_path / str(seed), small_config(seed, **SAE), [{"nll": k + 0.1 * seed} for k in range(3)])
        write_worse(run, run.read_evaluation().test.readings)
        found.append(run)
    return found


def change_sets(run: RunRecord, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change what the file has on each set, at every K′."""
    path = run.path / run.SHIFT["test"]
    stored = json.loads(path.read_text())
    for item in (stored, *stored["by_exits"]):
        change(item["by_set"])
    path.write_text(json.dumps(stored))


@pytest.mark.parametrize("exits", [1, 2, 3])
def test_each_set_is_the_mean_over_the_seeds_at_this_k(exits: int, shifted: list[RunRecord]) -> None:
    rows = means_by_set(over(shifted, exits))
    assert [(row.corruption, row.severity) for row in rows] == list(SETS)
    means = np.mean([nll_by_set(run, exits) for run in shifted], axis=0)
    assert [row.metrics["nll"] for row in rows] == pytest.approx(means)


def test_a_set_that_one_seed_lacks_is_over_the_others(shifted: list[RunRecord]) -> None:
    change_sets(shifted[1], lambda sets: sets.pop(0))
    first = means_by_set(over(shifted))[0].metrics["nll"]
    assert first == pytest.approx((nll_by_set(shifted[0], 2)[0] + nll_by_set(shifted[2], 2)[0]) / 2)


def test_a_set_that_only_the_first_seed_lacks_is_over_the_others(shifted: list[RunRecord]) -> None:
    change_sets(shifted[0], lambda sets: sets.pop(0))
    rows = {(row.corruption, row.severity): row.metrics["nll"] for row in means_by_set(over(shifted))}
    assert rows.keys() == set(SETS)
    assert rows[SETS[0]] == pytest.approx((nll_by_set(shifted[1], 2)[0] + nll_by_set(shifted[2], 2)[0]) / 2)


@pytest.mark.parametrize("content", ["", "{", "{}", '{"exits": 2, "by_set": [1]}', '{"exits": 2, "by_set": 1}'])
def test_sets_that_cannot_be_read_are_left_out(content: str, shifted: list[RunRecord]) -> None:
    (shifted[0].path / shifted[0].SHIFT["test"]).write_text(content)
    rows = means_by_set(over(shifted))
    means = np.mean([nll_by_set(run, 2) for run in shifted[1:]], axis=0)
    assert [row.metrics["nll"] for row in rows] == pytest.approx(means)
    assert means_by_set(over(shifted[:1])) == []


def test_numbers_of_a_set_that_are_not_finite_are_left_out(shifted: list[RunRecord]) -> None:
    change_sets(shifted[0], lambda sets: sets[0]["metrics"].update(nll=float("nan")))
    first = means_by_set(over(shifted))[0].metrics["nll"]
    assert first == pytest.approx((nll_by_set(shifted[1], 2)[0] + nll_by_set(shifted[2], 2)[0]) / 2)


def test_runs_without_shift_have_no_sets(tmp_path: Path) -> None:
    assert means_by_set(over([write_run(tmp_path / "x", small_config(0, **SAE), [{"nll": 1.0}] * 3)])) == []
