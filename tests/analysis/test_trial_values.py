from pathlib import Path

from sae.analysis.trial_values import read_trials
from tests.studies import small_study


def test_every_trial_is_told_with_what_became_of_it(tmp_path: Path) -> None:
    found = {item.trial.name: item for item in read_trials(small_study(tmp_path / "s").record.trials())}
    assert {name: item.state for name, item in found.items()} == {
        "sae/0": "finished",
        "sae/1": "failed",
        "sae/2": "finished",
        "sae/3": "stopped",
        "sae/4": "unfinished",
        "standard/0": "finished",
    }
    assert (found["sae/0"].get("nll"), found["sae/0"].get("nll", "test")) == (0.3, 1.3)
    assert (found["sae/0"].get("flops"), found["sae/0"].seconds) == (2000, 60.0)
    assert (found["sae/0"].kind, found["sae/0"].settings) == ("I/B", "N=2 K=2 W=1 D=3")
    assert (found["sae/1"].get("nll"), found["sae/1"].seconds) == (None, 60.0)
    assert found["sae/4"].seconds is None
    assert found["sae/0"].get("nll", "shift") is None


def test_damaged_results_are_told_and_hide_nothing_else(tmp_path: Path) -> None:
    record = small_study(tmp_path / "s").record
    runs = {trial.name: trial.run for trial in record.trials()}
    (runs["sae/0"].path / "metrics.json").write_text("{")
    (runs["sae/1"].path / "status.json").write_text("{")
    (runs["sae/3"].path / "config.yaml").write_text("nonsense: 3")
    states = {item.trial.name: item.state for item in read_trials(record.trials())}
    assert (states["sae/0"], states["sae/1"], states["standard/0"]) == ("damaged", "damaged", "finished")
    assert "sae/3" not in states
