"""Costs against the closed forms of the paper's section "Practical Implementation and Hardware Cost"."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import sae
from sae.backbones import PlainNetwork, build_backbone
from sae.config.backbones import BackboneSettings, Conv1dConfig, FcConfig, ResnetConfig, VggConfig, VitConfig
from sae.config.methods import SaeConfig, StandardConfig
from sae.core.errors import ConfigError, CostError, ShapeError
from sae.core.task import Shape
from sae.measure.cost import RULES, Cost, measure_cost
from sae.methods.costing import cost_of
from tests.builders import SHAPES, SMALL_BACKBONES, small_sae

N, OUT = 3, 5


def parts(backbone: BackboneSettings, shape: tuple[int, ...], active: list[int], num_inputs: int = N) -> Cost:
    return cost_of(SaeConfig(inputs=num_inputs, exits=1), backbone, shape, OUT, active)


@pytest.mark.parametrize("num_inputs", [1, 2, 4])
def test_fc_input_layer(num_inputs: int) -> None:
    stem = parts(FcConfig(width=2), (3, 8, 8), [1, 1, 1, 1, 1], num_inputs).by_part["stem"]
    f, c = 256, 3 * 8 * 8
    assert stem.params == f * num_inputs * c + f
    assert stem.flops == f * num_inputs * c + f + f  # and the ReLU behind it


@pytest.mark.parametrize("num_inputs", [1, 2, 4])
def test_convolutional_input_layer(num_inputs: int) -> None:
    stem = parts(VggConfig(width=2), (3, 16, 24), [1, 1, 1, 1, 1], num_inputs).by_part["stem"]
    f, k = 8, 3
    assert stem.params == f * num_inputs * 3 * k * k  # ours has no bias
    assert stem.flops == f * num_inputs * 3 * k * k * 16 * 24


@pytest.mark.parametrize("num_inputs", [1, 2, 4])
def test_vit_input_layer(num_inputs: int) -> None:
    stem = parts(VitConfig(), (3, 16, 16), [1, 1, 1, 1, 1], num_inputs).by_part["stem"]
    f, p, s = 192, 4, 16
    linear_params = f * p * p * num_inputs * 3 + f
    linear_flops = f * p * p * num_inputs * 3 * s + f * s
    norms = 2 * p * p * num_inputs * 3 * s + 2 * f * s
    assert stem.params == linear_params + 2 * p * p * num_inputs * 3 + 2 * f + num_inputs * f + (s + num_inputs) * f
    assert stem.flops == linear_flops + norms


@pytest.mark.parametrize("n", [1, 2, 3])
def test_fc_exit(n: int) -> None:
    exit_2 = parts(FcConfig(width=2), (10,), [0, n, 0, 0, 0]).by_part["exit_2"]
    f = f_last = 256
    assert exit_2.params == (f * f_last + f_last) + 2 * f_last + (f_last * n * OUT + n * OUT)
    assert exit_2.flops == (f * f_last + f_last) + 2 * f_last + f_last + (f_last * n * OUT + n * OUT)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(
    ("backbone", "shape", "stage", "f", "f_last", "h", "w"),
    [
        (VggConfig(width=2), (3, 32, 32), 2, 16, 64, 8, 8),
        (VggConfig(width=1), (1, 28, 20), 3, 16, 32, 3, 2),
        (ResnetConfig(), (3, 64, 64), 1, 64, 512, 32, 32),
        (ResnetConfig(), (3, 30, 30), 3, 256, 512, 4, 4),
    ],
)
def test_convolutional_exit(
    backbone: BackboneSettings, shape: tuple[int, ...], stage: int, f: int, f_last: int, h: int, w: int, n: int
) -> None:
    active = [n if index == stage - 1 else 0 for index in range(backbone.depth)]
    cost = parts(backbone, shape, active).by_part[f"exit_{stage}"]
    assert cost.params == (f * f_last + f_last) + 2 * f_last + (f_last * n * OUT + n * OUT)
    convolution = f * f_last * h * w + f_last * h * w
    assert cost.flops == convolution + (2 + 1 + 1) * f_last * h * w + (f_last * n * OUT + n * OUT)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_vit_exit(n: int) -> None:
    exit_1 = parts(VitConfig(), (3, 16, 16), [n, 0, 0, 0, 0]).by_part["exit_1"]
    f, tokens = 192, 16 + N
    assert exit_1.params == (f * f + f) + 2 * f + (f * n * OUT + n * OUT)
    assert exit_1.flops == (f * f * tokens + f * tokens) + (1 + 2 + 1) * f * tokens + (f * n * OUT + n * OUT)


def test_vit_layer_counts_attention_in_full() -> None:
    layer = parts(VitConfig(width=2), (3, 16, 16), [0, 0, 0, 0, 1]).by_part["stage_1"]
    f, s, heads, hidden = 192, 16 + N, 4, 384
    attention = 2 * f * s + 3 * f * f * s + 2 * s * s * f + heads * s * s + (f * f + f) * s + f * s
    mlp = 2 * f * s + (f * hidden + hidden) * s + hidden * s + (hidden * f + f) * s + f * s
    assert layer.flops == attention + mlp


def test_fc_stage() -> None:
    stage = parts(FcConfig(), (10,), [0, 0, 0, 0, 1]).by_part["stage_1"]
    assert stage.flops == (128 * 128 + 128) + 2 * 128 + 128 + 128  # Linear, BN, ReLU, residual add


def test_vgg_stage() -> None:
    stage = parts(VggConfig(), (3, 16, 16), [0, 0, 0, 0, 1]).by_part["stage_2"]
    assert stage.flops == 9 * 4 * 8 * 64 + (2 + 1 + 1) * 8 * 64  # conv, BN, ReLU, max-pool, on 8 × 8


def test_conv1d_stage() -> None:
    stage = parts(Conv1dConfig(kernel=5), (3, 25), [0, 0, 0, 0, 1]).by_part["stage_2"]
    assert stage.flops == 5 * 16 * 32 * 13 + (2 + 1 + 1) * 32 * 13  # conv, BN, ReLU, max-pool, on 13 time steps


def test_resnet_stage() -> None:
    stage = parts(ResnetConfig(), (3, 8, 8), [0, 0, 0, 1]).by_part["stage_1"]
    out = 64 * 4 * 4
    block = 2 * 9 * 64 * out + 2 * 2 * out + out + out + out  # two convs, two BNs, ReLU, add, ReLU
    assert stage.flops == 3 * block + 64 * out + 2 * out  # and the shortcut of the first


@pytest.mark.parametrize("name", SMALL_BACKBONES)
def test_convolutions_and_linears_agree_with_torchs_counter(name: str) -> None:
    network = PlainNetwork(build_backbone(SMALL_BACKBONES[name], SHAPES[name]), OUT).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.zeros(1, *SHAPES[name]))
    oracle = {str(key): value for key, value in counter.get_flop_counts()["Global"].items()}
    macs = sum(value for key, value in oracle.items() if "attention" not in key) // 2
    rest = _cost_of_everything_else(network, SHAPES[name])
    assert measure_cost(network, SHAPES[name]).flops == macs + rest


def _cost_of_everything_else(network: nn.Module, shape: Shape) -> int:
    """Biases, norms, activations, adds, pools and attention, by hooks instead of dispatch."""
    total = 0

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total
        name = type(module).__name__
        if isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d):
            total += output.numel() if module.bias is not None else 0
        elif name.startswith(("BatchNorm", "LayerNorm")):
            total += 2 * output.numel()
        elif name in ("ReLU", "GELU", "FcBlock", "BasicBlock"):
            total += output.numel()  # a block's own operation is its residual add
        elif name in ("MaxPool1d", "MaxPool2d", "GlobalAveragePool", "TimeMean", "TokenMean"):
            total += inputs[0].numel()
        elif name == "EncoderLayer":
            total += 2 * output.numel()
        elif name == "Attention":
            tokens, features = inputs[0].shape[1:]
            total += tokens * tokens * (2 * features + 4)

    hooks = [module.register_forward_hook(count) for module in network.modules()]
    with torch.no_grad():
        network(torch.zeros(1, *shape))
    for hook in hooks:
        hook.remove()
    return total


@pytest.mark.parametrize("name", SMALL_BACKBONES)
def test_cost_without_weights_is_the_cost_of_the_network(name: str) -> None:
    method = small_sae(name, num_inputs=2, exits=2)
    real = measure_cost(method.pruned_to([1] * method.depth), SHAPES[name])
    described = cost_of(SaeConfig(inputs=2, exits=1), SMALL_BACKBONES[name], SHAPES[name], 3, [1] * method.depth)
    assert described == real


@pytest.mark.parametrize("name", SMALL_BACKBONES)
def test_parts_add_up_to_the_whole(name: str) -> None:
    cost = cost_of(SaeConfig(inputs=2, exits=2), SMALL_BACKBONES[name], SHAPES[name], OUT)
    assert cost.flops == sum(part.flops for part in cost.by_part.values())
    assert cost.params == sum(part.params for part in cost.by_part.values())


def test_one_input_at_the_last_exit_costs_what_the_standard_network_does() -> None:
    sae = cost_of(SaeConfig(inputs=1, exits=1), VggConfig(), (3, 32, 32), OUT)
    assert sae == cost_of(StandardConfig(), VggConfig(), (3, 32, 32), OUT)


def test_counting_leaves_the_network_as_it_was() -> None:
    network = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).train()
    network[0].eval()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    measure_cost(network, (4,))
    assert network[1].training
    assert not network[0].training
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


class Digamma(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.digamma(x)


def test_an_operation_without_a_rule_is_an_error_and_not_free() -> None:
    with pytest.raises(CostError, match=r"aten\.digamma"):
        measure_cost(nn.Sequential(nn.Linear(4, 4), Digamma()), (4,))


def test_a_network_without_exits_takes_no_active_counts() -> None:
    with pytest.raises(ConfigError, match="has one exit"):
        cost_of(StandardConfig(), FcConfig(), (4,), OUT, [0, 0, 0, 0, 1])


MAP, SIGNAL, VOLUME = (6, 8, 8), (6, 12), (2, 4, 4, 4)


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        *((activation, MAP, 6 * 8 * 8) for activation in (nn.SiLU(), nn.Sigmoid(), nn.Hardswish(), nn.Hardsigmoid())),
        *((activation, MAP, 6 * 8 * 8) for activation in (nn.Tanh(), nn.LeakyReLU(), nn.ReLU6(), nn.ELU(), nn.Mish())),
        *((activation, MAP, 6 * 8 * 8) for activation in (nn.ReLU(inplace=True), nn.SiLU(inplace=True), nn.PReLU())),
        (nn.GroupNorm(2, 6), MAP, 2 * 6 * 8 * 8),
        (nn.InstanceNorm2d(6), MAP, 2 * 6 * 8 * 8),
        (nn.AvgPool1d(2), SIGNAL, 6 * 12),
        (nn.MaxPool1d(2), SIGNAL, 6 * 12),
        (nn.AvgPool2d(2), MAP, 6 * 8 * 8),
        (nn.AvgPool3d(2), VOLUME, 2 * 4**3),
        (nn.MaxPool3d(2), VOLUME, 2 * 4**3),
        (nn.AdaptiveAvgPool1d(1), SIGNAL, 6 * 12),
        (nn.AdaptiveAvgPool2d(1), MAP, 6 * 8 * 8),
        (nn.AdaptiveAvgPool2d(2), MAP, 6 * 8 * 8),
        (nn.AdaptiveAvgPool3d(2), VOLUME, 2 * 4**3),
        (nn.AdaptiveMaxPool2d(1), MAP, 6 * 8 * 8),
        (nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False), MAP, 9 * 6 * 8 * 8),
        (nn.Conv2d(6, 12, 1, groups=2), MAP, (3 + 1) * 12 * 8 * 8),
        (nn.Conv3d(2, 5, 3, padding=1), VOLUME, (2 * 27 + 1) * 5 * 4**3),
        (nn.ZeroPad2d(1), MAP, 0),
        (nn.ReflectionPad2d(1), MAP, 0),
        (nn.Dropout(0.5), MAP, 0),
        (nn.Flatten(), MAP, 0),
        (nn.PixelShuffle(1), MAP, 0),
        (nn.Softmax(dim=1), MAP, 6 * 8 * 8),
        (nn.UpsamplingNearest2d(scale_factor=2), MAP, 6 * 16 * 16),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_layers_that_networks_of_others_use(layer: nn.Module, shape: Shape, expected: int) -> None:
    assert measure_cost(layer, shape).flops == expected


class SelfAttention(nn.Module):
    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(features, heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layer(x, x, x, need_weights=False)[0]
        return output


def test_attention_of_torch() -> None:
    s, f, heads = 5, 8, 2
    linear = s * (f * 3 * f + 3 * f) + s * (f * f + f)
    products = 2 * s * s * f + heads * s * s
    assert measure_cost(SelfAttention(f, heads), (s, f)).flops == linear + products


def test_an_encoder_layer_of_torch_costs_the_same_as_its_parts() -> None:
    s, f, hidden = 5, 8, 16
    layer = nn.TransformerEncoderLayer(f, 2, hidden, batch_first=True)
    attention = measure_cost(SelfAttention(f, 2), (s, f)).flops
    mlp = s * (f * hidden + hidden) + s * hidden + s * (hidden * f + f)
    assert measure_cost(layer, (s, f)).flops == attention + mlp + 2 * (2 * s * f) + 2 * s * f  # norms and residual adds


class Cumulated(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.logcumsumexp(x, dim=1)


def test_an_operation_without_a_rule_can_be_given_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sae.measure.cost.RULES", dict(RULES))
    with pytest.raises(CostError, match=r"give it one with sae\.register_cost\(torch\.ops\.aten\._?logcumsumexp, rule"):
        measure_cost(Cumulated(), (7,))
    for operation in (torch.ops.aten.logcumsumexp, torch.ops.aten._logcumsumexp):
        sae.register_cost(operation, lambda _, out: 2 * out.numel())  # type: ignore[attr-defined]
    assert measure_cost(Cumulated(), (7,)).flops == 14


def test_another_shape_than_that_of_the_samples_is_refused() -> None:
    for network in (nn.Linear(6, 2), nn.Conv1d(6, 2, 1)):
        with pytest.raises(ShapeError, match="of the network takes 6 features, got 5"):
            measure_cost(network, (5, 3) if isinstance(network, nn.Conv1d) else (5,))


def test_a_rule_must_be_a_function_and_belong_to_an_operation() -> None:
    with pytest.raises(ConfigError, match=r"register_cost takes an operation of torch\.ops and a function"):
        sae.register_cost("cumsum", 3)  # type: ignore[arg-type]
