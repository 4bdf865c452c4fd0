import subprocess
import sys
from dataclasses import replace

import pytest

from sae.data.catalogue import CATALOGUE
from sae.report.labels import headline, metric_column, shown_exits
from tests.builders import run_config


@pytest.mark.parametrize(
    ("method", "eval_exits"),
    [("sae", 2), ("standard", None), ("ensemble", None), ("mc_dropout", None), ("batch_ensemble", None)],
)
def test_only_an_sae_has_a_number_of_exits_to_show(method: str, eval_exits: int | None) -> None:
    config = run_config(method={"name": method})
    assert shown_exits(config, 2) == eval_exits
    assert config.method.has_exits == (eval_exits is not None)


def test_the_column_of_an_objective_under_shift_is_named_for_people() -> None:
    assert metric_column("nll@shift", "classification", [0.5]).heading == "NLL under shift ↓"
    assert metric_column("nll", "classification", [0.5], under_shift=True).heading == "NLL (shift) ↓"
    assert metric_column("flops", "classification", [0.5], under_shift=True).heading == "MFLOPs ↓"


@pytest.mark.parametrize("module", ["commands", "labels", "tables", "findings", "lead"])
def test_commands_that_do_not_draw_need_no_altair(module: str) -> None:
    code = f"import sys, sae.report.{module}; sys.exit('altair' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_headline_follows_the_data() -> None:
    assert headline("classification", "tinyimagenet") == ("accuracy", "ece", "nll")
    assert headline("classification", "pneumoniamnist") == ("f1", "cc_ece_uniform", "nll", "cc_ece")
    assert headline("classification", "pathmnist") == ("f1", "cc_ece", "nll")
    assert headline("classification", "mine.csv") == ("f1", "cc_ece", "nll")
    assert headline("regression", "tinyimagenet") == ("nll", "mse")


def test_the_headline_is_a_property_of_the_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = replace(CATALOGUE["digits"], headline=("error", "brier", "nll"))
    monkeypatch.setitem(CATALOGUE, "digits", entry)
    assert headline("classification", "digits") == ("error", "brier", "nll")
