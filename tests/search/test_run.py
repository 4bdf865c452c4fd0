from pathlib import Path
from typing import Any

import pytest

from sae.core.errors import ConfigError
from sae.core.task import Classification, DataSpec
from sae.data import embedded
from sae.search.run import resolve_search
from tests.search.studies import DIGITS, InlineExecutor, search


def test_later_layers_go_over_earlier_ones() -> None:
    layers = [DIGITS, {"search": {"trials": 3, "objectives": ["nll", "flops"]}}, {"search": {"trials": 5}, "seed": 7}]
    plan = resolve_search(layers)
    assert plan.settings.trials == 5
    assert plan.study.objectives == ("nll", "flops")
    assert plan.study.seed == 7
    assert plan.study.spaces["sae"]["backbone"]["depth"] == 2
    assert plan.spec == DataSpec((1, 16, 16), Classification(10))


def test_a_method_that_is_named_is_the_one_to_search() -> None:
    for section in ("standard", {"name": "standard"}):
        assert resolve_search([DIGITS, {"method": section}]).settings.methods == ("standard",)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"spaces": 3}, "spaces must hold a section of settings for each method"),
        ({"search": 5}, "search must be a section of settings, got 5"),
        ({"confirm": [1]}, "confirm must be a section of settings, got [1]"),
        ({"confirm": None}, "confirm must be a section of settings, got None"),
        ({"backbone": {"name": ["fc"]}}, "backbone.name must be one of"),
        ({"backbone": {"depth": "deep"}}, "backbone.depth must be a whole number, a range or choices, got 'deep'"),
        ({"search": {"trialz": 3}}, "unknown setting trialz, did you mean trials?"),
        ({"data": 3}, "data.name must be set"),
        ({"method": 3}, "methods.0 must be a valid string"),
    ],
)
def test_settings_that_make_no_search_are_refused(layer: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_search([layer] if "data" in layer else [DIGITS, layer])
    assert message in str(caught.value)


def test_the_data_are_read_once_before_the_first_trial(
    tmp_path: Path, inline: InlineExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, calls = embedded.read_digits, []

    def count(*arguments: Any, **settings: Any) -> Any:
        calls.append(arguments)
        return read(*arguments, **settings)

    monkeypatch.setattr(embedded, "read_digits", count)
    assert search(tmp_path / "x", "--hours", "1e-9")[0] == 3  # ran, and gave nothing
    assert len(calls) == 1
