import pytest
import torch
from torch import nn

from sae.backbones import PlainNetwork, build_backbone
from sae.config.backbones import VitConfig
from sae.config.methods import McDropoutConfig, StandardConfig
from sae.measure.cost import measure_cost
from sae.methods import Batch, build_method
from sae.methods.costing import cost_of
from sae.methods.mc_dropout import Dropout, MaskSource, McDropout, dropout_places, with_dropout
from sae.training.evaluator import member_outputs
from tests.builders import SHAPE, SHAPES, SMALL_BACKBONES, spec_of

every_backbone = pytest.mark.parametrize("backbone", SMALL_BACKBONES)


def mc_dropout(backbone: str, rate: float = 0.3, samples: int = 4, seed: int = 0) -> McDropout:
    settings = McDropoutConfig(rate=rate, samples=samples)
    method = build_method(settings, SMALL_BACKBONES[backbone], spec_of(backbone), seed).eval()
    assert isinstance(method, McDropout)
    return method


def plain(backbone: str) -> PlainNetwork:
    return PlainNetwork(build_backbone(SMALL_BACKBONES[backbone], SHAPES[backbone]), 3)


@pytest.mark.parametrize("backbone", ["fc", "vgg", "resnet"])
def test_every_layer_but_the_first_has_a_dropout_before_it(backbone: str) -> None:
    network = plain(backbone)
    layers = [name for name, module in network.named_modules() if isinstance(module, nn.Linear | nn.Conv2d)]
    dropped = with_dropout(network, 0.5, MaskSource())
    assert isinstance(dropped.get_submodule(layers[0]), nn.Linear | nn.Conv2d)
    for name in layers[1:]:
        before, layer = dropped.get_submodule(name).children()
        assert isinstance(before, Dropout)
        assert isinstance(layer, nn.Linear | nn.Conv2d)
    assert sum(isinstance(module, Dropout) for module in dropped.modules()) == len(layers) - 1


def test_a_vision_transformer_has_its_usual_places() -> None:
    places = dropout_places(plain("vit"))
    assert places.before == ["exit.1"]
    assert places.after[0] == "backbone.stem.positions"
    blocks = [f"backbone.stages.{number}" for number in range(3)]
    assert places.after[1:] == [f"{block}.{place}" for block in blocks for place in ("attention.1", "mlp.2", "mlp.3")]
    assert places.within == [f"{block}.attention.1.product" for block in blocks]


@torch.no_grad()
def test_without_dropout_open_attention_computes_what_fused_attention_does() -> None:
    network, x = plain("vit").eval(), torch.randn(3, *SHAPES["vit"])
    dropped = with_dropout(network, 0.0, MaskSource()).eval()
    torch.testing.assert_close(dropped(x), network(x), rtol=1e-4, atol=1e-5)


def test_surgery_leaves_the_network_itself_alone() -> None:
    network = plain("resnet")
    with_dropout(network, 0.5, MaskSource())
    assert not any(isinstance(module, Dropout) for module in network.modules())


@pytest.mark.parametrize("shape", [(5, 7), (5, 3, 7), (4, 3, 5, 6)])
def test_a_rate_of_one_gives_zeros_and_of_zero_the_same(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    assert torch.equal(Dropout(1.0, MaskSource(), 0)(x), torch.zeros(shape))
    assert torch.equal(Dropout(0.0, MaskSource(), 0)(x), x)


def test_a_dropout_keeps_the_mean() -> None:
    x = torch.ones(100, 8, 10, 10)
    dropped = Dropout(0.3, MaskSource(), 0)(x)
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.02)
    assert (dropped == 0).float().mean().item() == pytest.approx(0.3, abs=0.01)


@every_backbone
def test_a_rate_of_one_is_finite(backbone: str) -> None:
    method = mc_dropout(backbone, rate=1.0)
    assert method.member_outputs(torch.randn(2, *SHAPES[backbone])).isfinite().all()


@every_backbone
@torch.no_grad()
def test_masks_differ_by_member_place_and_seed(backbone: str) -> None:
    x = torch.randn(1, *SHAPES[backbone]).expand(2, *SHAPES[backbone])
    outputs = mc_dropout(backbone).member_outputs(x)
    assert len(outputs.flatten(0, 1).unique(dim=0)) == 8
    method = mc_dropout(backbone)
    method.seed = 1
    assert not torch.equal(method.member_outputs(x), outputs)


@every_backbone
@torch.no_grad()
def test_the_same_seed_gives_the_same_numbers_whatever_was_drawn_before(backbone: str) -> None:
    method, x = mc_dropout(backbone), torch.randn(3, *SHAPES[backbone])
    once = method.member_outputs(x)
    torch.rand(5)
    method.member_outputs(torch.randn(7, *SHAPES[backbone]))
    assert torch.equal(method.member_outputs(x), once)


@every_backbone
@torch.no_grad()
def test_a_sample_has_its_masks_whatever_the_batch_size(backbone: str) -> None:
    method, x = mc_dropout(backbone), torch.randn(7, *SHAPES[backbone])
    whole = member_outputs(method, [x])
    for size in (1, 2, 3):
        torch.testing.assert_close(member_outputs(method, x.split(size)), whole, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_no_two_samples_of_a_split_share_their_masks() -> None:
    method, x = mc_dropout("fc"), torch.randn(1, *SHAPE)
    same = [x.expand(256, *SHAPE)] * 3
    outputs = member_outputs(method, same)
    assert len(outputs.flatten(0, 1).unique(dim=0)) == 3 * 256 * 4


def test_kept_numbers_are_found_at_any_row() -> None:
    source = MaskSource()
    whole = source.kept(2, (10, 3, 5), 0.4)
    with source.starting_at(6):
        assert torch.equal(source.kept(2, (4, 3, 5), 0.4), whole[6:])
    assert not torch.equal(source.kept(3, (10, 3, 5), 0.4), whole)


def test_masks_keep_their_share_and_have_no_pattern() -> None:
    kept = MaskSource().kept(0, (400, 30, 10), 0.7).double()
    assert kept.mean().item() == pytest.approx(0.7, abs=0.005)
    flat = kept.flatten(1)
    correlations = torch.corrcoef(flat)[~torch.eye(400, dtype=torch.bool)]  # of pairs of rows
    assert correlations.abs().max().item() < 6 / 300**0.5
    assert correlations.std().item() == pytest.approx(300**-0.5, rel=0.05)


def test_training_draws_from_the_steps_generator_alone() -> None:
    method = mc_dropout("fc").train()
    batch = Batch(torch.randn(8, *SHAPE), torch.arange(8) % 3)
    before = torch.get_rng_state()
    losses = [method.training_loss(batch, 0.0, torch.Generator().manual_seed(seed)).total.item() for seed in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]
    assert torch.equal(torch.get_rng_state(), before)


@torch.no_grad()
def test_prediction_leaves_the_statistics_of_batchnorm_alone() -> None:
    method = mc_dropout("fc")
    before = {name: value.clone() for name, value in method.state_dict().items()}
    method.member_outputs(torch.randn(4, *SHAPE))
    assert all(torch.equal(value, before[name]) for name, value in method.state_dict().items())


@every_backbone
@pytest.mark.parametrize("samples", [1, 4])
def test_cost_is_samples_times_the_standard_network_and_its_dropouts(backbone: str, samples: int) -> None:
    settings = SMALL_BACKBONES[backbone]
    standard = cost_of(StandardConfig(), settings, SHAPES[backbone], 3)
    cost = cost_of(McDropoutConfig(samples=samples), settings, SHAPES[backbone], 3)
    assert cost.params == standard.params
    assert cost.flops == samples * (standard.flops + _numel_of_dropouts(backbone))
    assert cost == measure_cost(mc_dropout(backbone, samples=samples).pruned(), SHAPES[backbone])


def test_dropouts_of_a_vision_transformer_cost_what_they_put_out() -> None:
    f, s, hidden, heads = 192, 1 + 4, 384, 4
    vit = VitConfig(depth=2, width=2)
    extra = cost_of(McDropoutConfig(samples=1), vit, SHAPE, 3).flops - cost_of(StandardConfig(), vit, SHAPE, 3).flops
    assert extra == f * s + 2 * (heads * s * s + f * s + hidden * s + f * s) + f


@pytest.mark.parametrize(("depth", "width", "published"), [(1, 1, 15.315), (2, 4, 58.925), (4, 4, 117.167)])
def test_flops_of_the_standard_vit_are_the_published_ones_in_the_authors_counting(
    depth: int, width: int, published: float
) -> None:
    """Their standard network holds all dropouts, at rate 0.

    They count 2 for each number out of QKᵀ and AV instead of the whole product, the addition of the positions,
    F for the mean over tokens, and the output activation. Only MC dropout has a dropout before the head.
    """
    f, s, heads, out = 192, 1 + 64, 4, 2
    ours = cost_of(McDropoutConfig(samples=1), VitConfig(depth=depth, width=width), (3, 32, 32), out).flops
    products = depth * (2 * heads * s * s + 2 * f * s - 2 * s * s * f)
    theirs = ours - f + products + f * s - (f * s - f) + out
    assert round(theirs / 1e6, 3) == published


def _numel_of_dropouts(backbone: str) -> int:
    """By hooks instead of dispatch."""
    network, total = mc_dropout(backbone).network.network, 0

    def count(_: nn.Module, __: object, output: torch.Tensor) -> None:
        nonlocal total
        total += output.numel()

    for module in network.modules():
        if isinstance(module, Dropout):
            module.register_forward_hook(count)
    network(torch.zeros(1, *SHAPES[backbone]))
    return total
