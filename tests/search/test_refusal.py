from collections.abc import Sequence

import pytest

from sae.config.run import RunConfig
from sae.core.errors import ConfigError
from sae.core.objectives import Limit, limits
from sae.core.task import Classification, DataSpec
from sae.search import refusal
from sae.search.space import build_space
from tests.search.studies import DIGITS

SPEC = DataSpec((1, 16, 16), Classification(10))


def test_the_first_structure_within_the_limits_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    space = build_space("standard", DIGITS, {}, {})
    assert 1 < space.size < refusal.MOST_REFUSED
    seen: list[RunConfig] = []
    broken_limit = refusal.broken_limit

    def note(limits: Sequence[Limit], config: RunConfig, spec: DataSpec) -> str | None:
        seen.append(config)
        return broken_limit(limits, config, spec)

    monkeypatch.setattr(refusal, "broken_limit", note)
    refusal.check_reach([space], limits({"flops": 1e12}, {}, "classification"), SPEC)
    assert len(seen) == 1


def test_a_space_without_any_structure_within_the_limits_is_refused() -> None:
    space = build_space("standard", DIGITS, {}, {})
    with pytest.raises(ConfigError, match=r"limits must leave something to try of standard: flops ≤ 1 where"):
        refusal.check_reach([space], limits({"flops": 1}, {}, "classification"), SPEC)
