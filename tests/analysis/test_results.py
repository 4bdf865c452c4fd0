import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from sae.analysis.candidates import candidates
from sae.analysis.confirmation import summarise
from sae.analysis.results import Spread, headline, run_results, study_results, unconfirmed
from sae.config.run import RunConfig
from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from tests.results import result, small_config, write_run, write_shift
from tests.studies import small_study

SEEDS = (1, 2, 3)
NLL = {1: 0.5, 2: 0.7, 3: 1.2}


def metrics(seed: int) -> list[dict[str, float]]:
    """Of K′ = 1 … 3; at K′ the nll is that of the seed plus K′ − 1."""
    return [{"nll": NLL[seed] + k, "f1": 0.5} for k in range(3)]


def confirmed_study(path: Path, failed: tuple[int, ...] = ()) -> StudyRecord:
    """sae/0 at K′ = 1 and 2 and standard/0, on three seeds."""
    record = small_study(path).record
    chosen = [
        item for item in candidates(record) if item.eval_exits <= 2 and item.trial.name in ("sae/0", "standard/0")
    ]
    items = []
    for item in chosen:
        folder = record.path / "confirm" / item.trial.method / item.trial.run.path.name
        runs = []
        for seed in SEEDS:
            config: RunConfig = item.config.model_copy(update={"seed": seed})
            run = RunRecord(folder / f"seed-{seed}")
            if not run.path.exists():
                write_run(run.path, config, metrics(seed), "failed" if seed in failed else "finished")
            runs.append(run)
        items.append(summarise(item, runs, item.eval_exits))
    record.write_json(record.CONFIRMED, {"objectives": ["nll"], "seeds": list(SEEDS), "front": items})
    return record


def test_a_result_is_over_the_seeds(tmp_path: Path) -> None:
    results = study_results(confirmed_study(tmp_path / "s"))
    assert [(item.label, item.eval_exits) for item in results] == [("sae/0", 1), ("sae/0", 2), ("standard/0", 1)]
    second = results[1]
    values = np.array([NLL[seed] + 1 for seed in SEEDS])
    assert second.test["nll"].mean == pytest.approx(values.mean())
    assert second.test["nll"].std == pytest.approx(values.std(ddof=1))
    assert second.costs == {"flops": Spread(200.0, 0.0), "params": Spread(20.0, 0.0)}
    assert (second.kind, second.settings, second.exits) == ("I/B", "N=2 K=2 W=1 D=3", 2)
    assert (len(second.runs), second.failed, second.active) == (3, 0, (1, 1))
    assert second.seconds == Spread(60.0, 0.0)
    assert second.shift is None


def test_results_are_the_numbers_that_the_study_wrote(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "s")
    for item, found in zip(record.read_json(record.CONFIRMED)["front"], study_results(record), strict=True):
        assert item["test"] == {key: spread.describe() for key, spread in found.test.items()}
        assert item["costs"] == {key: spread.describe() for key, spread in found.costs.items()}
        assert item["seconds"] == {"mean": 60.0, "std": 0.0}


def test_a_study_may_be_moved(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "before")
    expected = [item.test for item in study_results(record)]
    shutil.move(record.path, tmp_path / "after")
    assert [item.test for item in study_results(StudyRecord.open(tmp_path / "after"))] == expected


def test_an_older_summary_names_trials_by_their_folders(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "s")
    confirmed = record.read_json(record.CONFIRMED)
    for item in confirmed["front"]:
        del item["trial"], item["active"]
    record.write_json(record.CONFIRMED, confirmed)
    assert [item.label for item in study_results(record)] == ["sae/0", "sae/0", "standard/0"]


def test_a_study_without_confirmed_runs_has_no_results(tmp_path: Path) -> None:
    record = small_study(tmp_path / "s").record
    assert study_results(record) == []
    assert unconfirmed(record) == []


def test_failed_seeds_are_counted_not_used(tmp_path: Path) -> None:
    found = study_results(confirmed_study(tmp_path / "s", failed=(2,)))[0]
    assert (len(found.runs), found.failed) == (2, 1)
    assert found.test["nll"].mean == pytest.approx((0.5 + 1.2) / 2)


def test_a_damaged_run_counts_as_failed(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "s")
    run = study_results(record)[0].runs[0]
    (run.path / run.METRICS).write_text("{")
    assert [(len(item.runs), item.failed) for item in study_results(record)] == [(2, 1), (2, 1), (3, 0)]


def test_a_configuration_of_which_nothing_finished_is_named_instead(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "s", failed=SEEDS)
    assert study_results(record) == []
    assert unconfirmed(record) == ["sae/0", "standard/0"]
    first = record.read_json(record.CONFIRMED)["front"][0]
    assert (first["seeds"], first["failed"], first["test"], first["seconds"]) == (0, 3, {}, None)


def test_the_file_and_the_page_count_the_same_runs(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "s")
    result = study_results(record)[1]
    (result.runs[0].path / RunRecord.METRICS).write_text("{")
    short = result.runs[1].read_json(RunRecord.METRICS)
    short["test"]["by_exits"] = short["test"]["by_exits"][:1]
    short["test"]["exits"] = 1
    result.runs[1].write_json(RunRecord.METRICS, short)
    item = next(item for item in candidates(record) if (item.trial.name, item.eval_exits) == ("sae/0", 2))
    written, shown = summarise(item, result.runs, 2), study_results(record)[1]
    assert (written["seeds"], written["failed"]) == (len(shown.runs), shown.failed) == (1, 2)
    assert written["test"]["nll"] == shown.test["nll"].describe()


def test_the_deviation_over_sets_is_told_from_that_over_seeds(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "s")
    runs = study_results(record)[0].runs
    for run, (mean, std) in zip(runs, [(1.0, 0.2), (2.0, 0.4), (3.0, 0.9)], strict=True):
        write_shift(run, [(mean, std), (9.0, 9.0)])
    found = study_results(record)[0]
    assert found.shift is not None
    assert found.shift["nll"] == Spread(2.0, 1.0)
    assert found.shift_over_sets == {"nll": Spread(2.0, 0.5)}
    assert found.shift_runs == 3
    assert found.get("nll", "shift") == Spread(2.0, 1.0)
    assert found.get("flops", "shift") == found.costs["flops"]
    item = next(item for item in candidates(record) if item.trial.name == "sae/0")
    written = summarise(item, runs, 1)
    assert written["shift"]["nll"] == {"mean": 2.0, "std": 1.0}
    assert written["shift_std_over_sets"]["nll"]["mean"] == 0.5


def test_runs_that_were_not_measured_under_shift_are_not_in_its_mean(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "s")
    write_shift(study_results(record)[0].runs[0], [(1.0, 0.2), (9.0, 9.0)])
    found = study_results(record)[0]
    assert found.shift == {"nll": Spread(1.0, None)}
    assert (found.shift_runs, len(found.runs)) == (1, 3)


def test_an_older_shift_file_tells_only_of_the_trained_exits(tmp_path: Path) -> None:
    record = confirmed_study(tmp_path / "s")
    for run in study_results(record)[0].runs:
        run.write_json("shift-test.json", {"exits": 2, "metrics": {"nll": 4.0}})
    first, second = study_results(record)[:2]
    assert first.shift is None
    assert second.shift == {"nll": Spread(4.0, 0.0)}
    assert second.shift_over_sets == {}


def test_numbers_that_are_not_finite_are_left_out_of_a_result(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / str(seed), small_config(seed, name="standard"), metrics(seed)) for seed in SEEDS]
    text = (runs[0].path / runs[0].METRICS).read_text().replace(json.dumps(0.5), "NaN")
    (runs[0].path / runs[0].METRICS).write_text(text)
    (found,) = run_results(runs)
    assert found.test["nll"].mean == pytest.approx((0.7 + 1.2) / 2)
    assert found.test["nll"].left_out == 1


def test_runs_that_differ_only_in_their_seed_are_one_result(tmp_path: Path) -> None:
    two, one = (small_config(name="sae", inputs=inputs, exits=2) for inputs in (2, 1))
    runs = [write_run(tmp_path / f"a{seed}", two.model_copy(update={"seed": seed}), metrics(seed)) for seed in SEEDS]
    runs.insert(1, write_run(tmp_path / "b", one, metrics(1)))
    first, second = run_results(runs)
    assert (first.label, first.eval_exits, first.kind) == ("a1, a2, a3", 2, "I/B")
    assert first.test["nll"].mean == pytest.approx(np.mean([value + 1 for value in NLL.values()]))
    assert (second.label, second.test["nll"]) == ("b", Spread(1.5, None))


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


def test_the_headline_follows_the_data() -> None:
    assert headline("classification", "tinyimagenet") == ("accuracy", "ece", "nll")
    assert headline("classification", "mine.csv") == ("f1", "cc_ece", "nll")
    assert headline("regression", "tinyimagenet") == ("nll", "mse")
