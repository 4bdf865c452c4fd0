import copy

import torch
from torch import nn

from sae.training.flat_parameters import FlatParameters


def network() -> nn.Module:
    torch.manual_seed(0)  # no BatchNorm: the bias before it has a gradient of pure rounding, which Adam would amplify
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 2))


def test_one_adam_step_on_the_vector_is_a_step_on_every_tensor() -> None:
    flat_net = network()
    plain_net = copy.deepcopy(flat_net)
    flat = FlatParameters(list(flat_net.parameters()))
    flat_adam = torch.optim.AdamW([flat.parameter], lr=0.1, weight_decay=0.1)
    plain_adam = torch.optim.AdamW(plain_net.parameters(), lr=0.1, weight_decay=0.1)
    for step in range(3):
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
        flat.zero_grad()
        plain_adam.zero_grad()
        flat_net(x).square().sum().backward()
        plain_net(x).square().sum().backward()
        norm = flat.clip_grad_norm(0.5)
        plain_norm = nn.utils.clip_grad_norm_(plain_net.parameters(), 0.5)
        torch.testing.assert_close(norm, plain_norm)
        flat_adam.step()
        plain_adam.step()
    for one, other in zip(flat_net.parameters(), plain_net.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_below_the_norm_are_left_alone() -> None:
    flat = FlatParameters([nn.Parameter(torch.zeros(2))])
    flat.gradient.copy_(torch.tensor([3.0, 4.0]))
    assert flat.clip_grad_norm(10.0).item() == 5.0
    assert flat.gradient.tolist() == [3.0, 4.0]


def test_copies_of_a_flattened_network_are_independent() -> None:
    net = network()
    FlatParameters(list(net.parameters()))
    twin = copy.deepcopy(net)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert any(parameter.abs().sum() > 0 for parameter in net.parameters())
