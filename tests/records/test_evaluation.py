import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sae.core.errors import RecordError
from sae.records.evaluation import (
    SPLITS,
    Evaluation,
    Interim,
    Latency,
    LatencyReading,
    RunEvaluation,
    ShiftEvaluation,
    SplitCurves,
)
from sae.records.folder import Folder
from sae.records.run import RunRecord, read_run
from sae.records.study import StudyRecord
from tests.results import small_config, write_run, write_shift
from tests.studies import alike_sets, reading

GOLDEN = Path(__file__).parent.parent / "golden"
STUDY = GOLDEN / "study"
RUNS = [GOLDEN / "run", STUDY / "trials" / "sae" / "00002-f3ad97ea", STUDY / "trials" / "ensemble" / "00000-8ca760de"]
STORED = pytest.mark.parametrize("record", [RunRecord(path) for path in RUNS], ids=["run", "sae", "ensemble"])


def evaluation(*exits: int, trained: int = 1) -> Evaluation:
    """The nll is 0.1 K′, the costs 100 K′."""
    readings = tuple(reading(k, {"nll": 0.1 * k, "flops": 100 * k, "params": 10 * k}) for k in exits)
    return Evaluation(exits=trained, readings=readings)


def check_same(folder: Folder, name: str, values: Mapping[str, object], tmp_path: Path) -> None:
    """Writing the values again gives the same file, to the byte."""
    stored = (folder.path / name).read_bytes()
    assert values == json.loads(stored)
    Folder(tmp_path).write_json(name, values)
    assert (tmp_path / name).read_bytes() == stored


@STORED
def test_metrics_are_written_as_they_were_stored(record: RunRecord, tmp_path: Path) -> None:
    found = record.read_evaluation()
    check_same(record, record.METRICS, {"val": found.val.to_json(), "test": found.test.to_json()}, tmp_path)


@STORED
def test_curves_are_written_as_they_were_stored(record: RunRecord, tmp_path: Path) -> None:
    exits = record.read_evaluation().exits
    check_same(record, record.CURVES, {split: record.read_curves(split).to_json(exits) for split in SPLITS}, tmp_path)


@STORED
def test_a_status_is_written_as_it_was_stored(record: RunRecord, tmp_path: Path) -> None:
    status = record.read_status()
    assert status is not None
    check_same(record, record.STATUS, status.model_dump(mode="json", exclude_none=True), tmp_path)


@pytest.mark.parametrize("path", RUNS[1:], ids=["sae", "ensemble"])
def test_measures_of_a_search_are_written_as_they_were_stored(path: Path, tmp_path: Path) -> None:
    record = RunRecord(path)
    for split in SPLITS:
        shift = record.read_shift(split)
        assert shift is not None
        assert len(shift.readings[0].sets) == shift.num_sets
        check_same(record, record.SHIFT[split], shift.to_json(), tmp_path)
    latency = record.read_evaluation().latency
    assert latency is not None
    check_same(record, record.LATENCY, latency.to_json(), tmp_path)


def test_what_was_confirmed_is_written_as_it_was_stored(tmp_path: Path) -> None:
    study = StudyRecord.open(STUDY)
    confirmed = study.read_confirmed()
    assert confirmed is not None
    check_same(study, study.CONFIRMED, confirmed.model_dump(mode="json"), tmp_path)


def test_all_stored_runs_can_be_read() -> None:
    records = [RunRecord(path.parent) for path in sorted(GOLDEN.rglob(RunRecord.STATUS))]
    assert len(records) > 10
    for record in records:
        run = read_run(record, with_shift=True)
        assert run.damage is None
        assert run.evaluation is not None


def test_interim_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    record = RunRecord(tmp_path)
    written = Interim(epoch=3, seconds=1.5, val=evaluation(1, 2, trained=2))
    record.write_json(record.INTERIM, written.to_json())
    assert list(written.to_json()) == ["epoch", "seconds", "val"]
    assert record.read_interim() == written


def test_a_number_of_exits_that_was_not_recorded_is_named() -> None:
    with pytest.raises(RecordError, match=r"must be one that was recorded \(1, 2\), got 3"):
        evaluation(1, 2).at(3)
    with pytest.raises(RecordError, match=r"recorded \(none\), got 1"):
        SplitCurves(readings=()).at(1)
    latency = Latency(batch=64, threads=1, readings=(LatencyReading(eval_exits=2, latency=0.5),))
    with pytest.raises(RecordError, match=r"recorded \(2\), got 1"):
        latency.at(1)
    assert latency.at(2).latency == 0.5


def test_readings_are_found_by_their_number_of_exits_in_any_order() -> None:
    found = evaluation(3, 1, 2, trained=2)
    assert found.at(3).metrics == {"nll": pytest.approx(0.3)}
    assert found.at(3).costs == {"flops": 300, "params": 30, "shipped_flops": 300, "shipped_params": 30}
    assert found.metrics is found.chosen.metrics
    assert found.chosen is found.at(2)


@pytest.mark.parametrize("readings", [(), (1, 3)])
def test_an_evaluation_must_have_a_reading_at_its_own_exits(readings: tuple[int, ...]) -> None:
    with pytest.raises(ValidationError, match="it must have a reading at 2 exits"):
        evaluation(*readings, trained=2)


def test_temperature_scaling_is_written_only_where_it_was_done() -> None:
    plain = reading(1, {"nll": 0.5, "flops": 100, "params": 10})
    assert list(plain.to_json()) == [
        *("exits", "active", "params", "flops", "shipped_params", "shipped_flops", "metrics"),
    ]
    scaled = plain.model_copy(update={"temperature": 1.5, "calibrated": {"nll": 0.4}})
    assert scaled.to_json() == {**plain.to_json(), "temperature": 1.5, "calibrated": {"nll": 0.4}}


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    return write_run(tmp_path / "x", small_config(name="sae", inputs=2, exits=2), [{"nll": 0.5}] * 3)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("metrics", {"nll": "0.5"}, "metrics.nll: Input should be a valid number"),
        ("metrics", {"nll": None}, "metrics.nll: Input should be a valid number"),
        ("metrics", 0.5, "metrics: Input should be an object"),
        ("flops", "100", "flops: Input should be a valid integer"),
        ("flops", True, "flops: Input should be a valid integer"),
        ("shipped_flops", 0.5, "shipped_flops: Input should be a valid integer"),
        ("active", [0, "1"], "active.1: Input should be a valid integer"),
        ("exits", "1", "exits: Input should be a valid integer"),
    ],
)
def test_a_value_of_another_type_is_damage(key: str, value: object, problem: str, record: RunRecord) -> None:
    stored = json.loads((record.path / record.METRICS).read_text())
    stored["val"]["by_exits"][0][key] = value
    record.write_json(record.METRICS, stored)
    with pytest.raises(RecordError) as caught:
        record.read_evaluation()
    assert f"metrics.json is damaged (val.by_exits.0.{problem}" in str(caught.value)
    assert read_run(record).damage == str(caught.value)


@pytest.mark.parametrize("key", ["exits", "active", "params", "flops", "shipped_params", "shipped_flops", "metrics"])
def test_a_missing_key_of_a_reading_is_damage(key: str, record: RunRecord) -> None:
    stored = json.loads((record.path / record.METRICS).read_text())
    del stored["test"]["by_exits"][1][key]
    record.write_json(record.METRICS, stored)
    with pytest.raises(RecordError, match=rf"damaged \(test.by_exits.1.{key}: Field required\)"):
        record.read_evaluation()


def without(values: dict[str, Any], *path: str | int) -> dict[str, Any]:
    """The values without the last key of a path."""
    copy = json.loads(json.dumps(values))
    inner = copy
    for part in path[:-1]:
        inner = inner[part]
    del inner[path[-1]]
    return dict(copy)


@pytest.mark.parametrize(
    "path",
    [
        ("exits",),
        ("sets",),
        ("by_exits",),
        ("by_exits", 0, "metrics"),
        ("by_exits", 0, "std_over_sets"),
        ("by_exits", 0, "by_set"),
        ("by_exits", 0, "by_set", 0, "corruption"),
    ],
)
def test_a_missing_key_of_results_under_shift_is_damage(path: tuple[str | int, ...], record: RunRecord) -> None:
    write_shift(record, [(1.0, 0.1), (2.0, 0.2), (3.0, 0.3)])
    name = record.SHIFT["test"]
    record.write_json(name, without(json.loads((record.path / name).read_text()), *path))
    with pytest.raises(RecordError, match=rf"shift-test.json is damaged \({'.'.join(map(str, path))}: Field required"):
        record.read_shift("test")


def test_numbers_that_are_not_finite_are_damage_and_are_never_written(record: RunRecord) -> None:
    path = record.path / record.METRICS
    path.write_text(path.read_text().replace("0.5", "NaN", 1))
    with pytest.raises(RecordError, match="numbers must be finite"):
        record.read_evaluation()
    with pytest.raises(ValueError, match="JSON"):
        record.write_json(record.METRICS, {"val": float("nan")})


@pytest.mark.parametrize(
    ("number", "is_read"), [("1e150", True), ("-3.5E+299", True), ("1e309", False), ("-Infinity", False)]
)
def test_large_numbers_are_read_as_far_as_a_float_goes(record: RunRecord, number: str, is_read: bool) -> None:
    path = record.path / record.METRICS
    path.write_text(path.read_text().replace("0.5", number))
    if is_read:
        assert record.read_evaluation().val.at(1).metrics["nll"] == float(number)
    else:
        with pytest.raises(RecordError, match="damaged"):
            record.read_evaluation()


def test_a_text_may_name_numbers_that_are_not_finite(tmp_path: Path) -> None:
    record = RunRecord.create(tmp_path / "x", small_config(name="standard"))
    record.end("failed", error="the loss was: NaN, after 1e999, steps")
    status = record.read_status()
    assert status is not None
    assert status.reason == "the loss was: NaN, after 1e999, steps"


def test_what_was_read_cannot_be_changed() -> None:
    found = evaluation(1)
    with pytest.raises(ValidationError, match="frozen"):
        found.exits = 2  # type: ignore[misc]


def test_values_of_objectives_come_from_all_files() -> None:
    split = evaluation(1, 2, trained=2)
    latency = Latency(batch=64, threads=1, readings=tuple(LatencyReading(eval_exits=k, latency=k / 2) for k in (1, 2)))
    plain = RunEvaluation(val=split, test=split)
    assert plain.objective_values(2) == {"nll": 0.2, **split.at(2).costs}
    full = RunEvaluation(val=split, test=split, latency=latency)
    assert full.costs(1) == {**split.at(1).costs, "latency": 0.5}
    assert full.objective_values(2) == {**plain.objective_values(2), "latency": 1.0}
    assert (full.exits, full.eval_exits) == (2, (1, 2))


def test_results_under_shift_are_refused_until_they_were_read(record: RunRecord) -> None:
    found = record.read_evaluation()
    for ask in (found.shift_at, lambda exits: found.metrics("shift", exits)):
        with pytest.raises(AssertionError, match="were not read: use with_shift=True"):
            ask(2)
    without_shift = record.add_shift(found)
    assert without_shift.shift_at(2) is None
    assert without_shift.metrics("shift", 2) == {}
    write_shift(record, [(1.0, 0.1), (2.0, 0.2), (3.0, 0.3)])
    with_shift = record.add_shift(found)
    assert with_shift.metrics("shift", 2) == {"nll": 2.0}
    shifted = with_shift.shift_at(3)
    assert shifted is not None
    assert shifted.std_over_sets == {"nll": 0.3}
    assert [item.severity for item in shifted.sets] == [1, 5]
    with pytest.raises(RecordError, match=r"recorded \(1, 2, 3\), got 4"):
        with_shift.shift_at(4)


def test_values_under_shift_of_validation_are_named_so() -> None:
    split = evaluation(1)
    shifted = ShiftEvaluation(exits=1, num_sets=2, readings=(alike_sets(1, {"nll": 0.9}),))
    found = RunEvaluation(val=split, test=split, shifted_val=shifted).objective_values(1)
    assert found == {"nll": 0.1, **split.at(1).costs, "nll@shift": 0.9}
