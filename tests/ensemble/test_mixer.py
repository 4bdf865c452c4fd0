import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sae.ensemble.mixer import mix_indices, num_repeated


def mix(batch: int, num_inputs: int, repetition: int, fraction: float, seed: int = 0) -> Tensor:
    return mix_indices(batch, num_inputs, repetition, fraction, torch.Generator().manual_seed(seed))


@given(st.integers(1, 20), st.integers(1, 4), st.integers(1, 3), st.floats(0, 1), st.integers(0, 50))
def test_every_input_sees_every_sample_equally_often(
    batch: int, num_inputs: int, repetition: int, fraction: float, seed: int
) -> None:
    index = mix(batch, num_inputs, repetition, fraction, seed)
    assert index.shape == (batch * repetition, num_inputs)
    for column in index.T:
        assert torch.bincount(column, minlength=batch).tolist() == [repetition] * batch


@given(st.integers(1, 20), st.integers(2, 4), st.floats(0, 1))
def test_the_last_positions_show_all_inputs_the_same_sample(batch: int, num_inputs: int, fraction: float) -> None:
    index = mix(batch, num_inputs, 2, fraction)
    repeated = index[len(index) - num_repeated(len(index), fraction) :]
    assert (repeated == repeated[:, :1]).all()


def test_a_repeat_fraction_of_one_gives_identical_inputs() -> None:
    index = mix(16, 3, 2, 1.0)
    assert (index == index[:, :1]).all()


def test_a_repeat_fraction_of_zero_gives_independent_shuffles() -> None:
    agree = torch.stack([(mix(50, 2, 1, 0.0, seed).diff(dim=1) == 0).float().mean() for seed in range(200)])
    assert abs(agree.mean().item() - 1 / 50) < 0.005  # as often as chance has it


def test_the_common_order_is_itself_shuffled() -> None:
    assert mix(32, 1, 1, 1.0).flatten().tolist() != list(range(32))


def test_the_number_of_repeated_positions_is_rounded_up() -> None:
    assert [num_repeated(10, fraction) for fraction in (0.0, 0.01, 0.7, 0.71, 1.0)] == [0, 1, 7, 8, 10]
