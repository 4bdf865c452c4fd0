from typing import Any

from sae.analysis.independence import CorrelationPoint, correlation_points
from sae.records.run import Run, State
from tests.builders import run_config
from tests.results import run_of


def trial(correlation: float | None, state: State = "finished", name: str = "sae", **method: Any) -> Run:
    config = run_config(method={"name": name, **method}, backbone={"name": "fc", "depth": 3})
    metrics = {"nll": 0.5, **({} if correlation is None else {"error_correlation": correlation})}
    return run_of(config, metrics, state, label="run")


def test_a_network_is_a_point_for_every_setting() -> None:
    fraction = {"start": 0.0, "end": 0.25}
    points = correlation_points([trial(0.7, inputs=3, exits=2, repeat_fraction=fraction)])
    assert points == [CorrelationPoint(key, value, 0.7, "run") for key, value in (("i end", 0.25), ("N", 3), ("K", 2))]


def test_networks_without_a_number_are_left_out() -> None:
    assert not correlation_points([trial(None), trial(None, "failed"), trial(0.5, name="ensemble")])
