import numpy as np  # noqa: F401 (loads the library whose threads are counted)
import optuna
import pytest
import torch
from optuna.samplers import BaseSampler, GPSampler
from optuna.trial import FrozenTrial
from threadpoolctl import threadpool_info, threadpool_limits

from sae.search.samplers.repeatable import make_sampler
from sae.search.samplers.scalarized import ScalarizedSampler
from sae.training.trainer import torch_threads
from tests.search.samplers.test_modelled import SPACE, history, study_of


def threads() -> set[int]:
    return {torch.get_num_threads(), *(library["num_threads"] for library in threadpool_info())}


@pytest.mark.parametrize(("name", "sampler"), [("gp", GPSampler), ("scalarized", ScalarizedSampler)])
def test_a_model_is_computed_on_one_thread(
    name: str, sampler: type[BaseSampler], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[int]] = []

    def note(self: BaseSampler, study: optuna.Study, trial: FrozenTrial, space: object) -> dict[str, float]:
        seen.append(threads())
        return {"x": 0.5, "y": 0.5}

    monkeypatch.setattr(sampler, "sample_relative", note)
    study = study_of(history(12))
    study.sampler = make_sampler(name, seed=0, startup=5)
    with torch_threads(2), threadpool_limits(2):
        study.ask(SPACE)
        assert (seen, threads()) == ([{1}], {2})
