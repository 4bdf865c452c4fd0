import pytest
import torch

from sae.config import FcConfig, SaeConfig, Schedule, TemperatureSchedule
from sae.errors import ConfigError
from sae.methods import Batch, build_method
from sae.methods.sae import Sae
from tests.builders import SHAPE, SPEC, small_sae


def test_more_exits_than_stages_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"method.exits must be in \[1, 3\], got 4: fc has 3 stages"):
        build_method(SaeConfig(exits=4), FcConfig(depth=3), SPEC)


def test_every_member_weighs_theta_over_n() -> None:
    method = small_sae("fc", num_inputs=3, max_exits=2)
    expected = method.exits.weights(2, method.temperature) / 3
    torch.testing.assert_close(method.member_weights(), expected.flatten())


def test_predictions_use_the_final_temperature_after_training() -> None:
    schedule = TemperatureSchedule(start=1.0, end=0.25)
    method = build_method(SaeConfig(temperature=schedule), FcConfig(), SPEC)
    assert isinstance(method, Sae)
    assert method.temperature == 0.25
    batch = Batch(torch.randn(4, *SHAPE), torch.zeros(4, dtype=torch.long))
    method.training_loss(batch, 0.0, torch.Generator())
    assert method.temperature == 1.0


def test_one_input_is_not_repeated() -> None:
    assert small_sae("fc", num_inputs=1, max_exits=1).repetition == 1
    assert small_sae("fc", num_inputs=2, max_exits=1).repetition == 2


def test_inputs_beside_a_sample_matter_in_training_but_not_to_its_own_target() -> None:
    method = small_sae("fc", num_inputs=2, max_exits=2)
    x = torch.randn(4, 2, *SHAPE)
    swapped = x.clone()
    swapped[:, 1] = torch.randn(4, *SHAPE)
    assert not torch.allclose(method.network(x)[:, 0], method.network(swapped)[:, 0])


def test_schedules_are_linear_and_exact_at_their_ends() -> None:
    schedule = Schedule(start=1.0, end=0.1)
    assert [schedule.at(p) for p in (0.0, 0.5, 1.0)] == [1.0, pytest.approx(0.55), 0.1]
