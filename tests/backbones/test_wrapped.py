"""Networks that others wrote, as backbones of ours."""

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sae.backbones.base import FeatureKind
from sae.backbones.recording import exit_features
from sae.backbones.survey import suggest_exits
from sae.backbones.wrapped import WrappedBackbone, widened, wrap
from sae.config.backbones import FcConfig
from sae.config.method_registry import UnitSchedule
from sae.config.methods import (
    BatchEnsembleConfig,
    EnsembleConfig,
    McDropoutConfig,
    MethodSettings,
    PackedConfig,
    SaeConfig,
    StandardConfig,
)
from sae.core.errors import ConfigError, CostError, FeaturesWarning, ShapeError, UncutWarning
from sae.core.task import Classification, DataSpec
from sae.measure.cost import measure_cost, measure_shipped_cost
from sae.methods import Batch, Method, build_method
from sae.methods.costing import cost_of
from sae.methods.sae import Sae
from sae.own_loop import SingleArchitectureEnsemble
from tests.modules import EXAMPLES, Example, Mlp, Resnet, SignalNet, Vgg, Vit

METHODS: list[MethodSettings] = [
    SaeConfig(inputs=2, exits=2),
    StandardConfig(),
    EnsembleConfig(members=2),
    McDropoutConfig(samples=2),
    BatchEnsembleConfig(members=2),
]


DIFFERENT = ("mobilenet", "vit", "mixer", "volumes")
"""Examples that differ most in their layers."""


@cache
def wrapped(example: Example, inputs: int = 1) -> WrappedBackbone:
    """Return a wrapped example; what is found out about it is found out once."""
    return wrap(example.make, example.sample, example.exits, inputs=inputs, outputs=3)


def samples(example: Example, count: int = 6) -> Tensor:
    return torch.randn((count, *example.shape), generator=torch.Generator().manual_seed(1))


def sae_of(backbone: WrappedBackbone, inputs: int = 2) -> Sae:
    method = build_method(SaeConfig(inputs=inputs, exits=2), backbone, backbone.spec).eval()
    assert isinstance(method, Sae)
    return method


def randomise(method: Method) -> None:
    """Give BatchNorm statistics that matter."""
    for module in method.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            module.running_mean.normal_()  # type: ignore[union-attr]
            module.running_var.uniform_(0.5, 2.0)  # type: ignore[union-attr]


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_a_network_of_any_kind_can_be_cut_behind_its_exits(example: Example) -> None:
    backbone = wrapped(example, inputs=2)
    assert backbone.uncut_reason is None
    joined = torch.cat([samples(example)] * 2, dim=1)
    for features, info in zip(backbone(joined), backbone.stage_info, strict=True):
        assert features.shape == (6, *info.shape)


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_the_pruned_and_the_folded_network_equal_the_masked_whole(example: Example) -> None:
    method, x = sae_of(wrapped(example)), samples(example)
    randomise(method)
    with torch.no_grad():
        whole = method.network(torch.stack([x, x], dim=1))  # (batch, input, exit, out)
        for active in ([2, 0, 0], [0, 1, 0], [1, 0, 2]):
            pruned = method.pruned_to(active)
            expected = torch.stack([whole[:, i, j] for i, j in pruned.members], dim=1)
            torch.testing.assert_close(pruned(x), expected, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(pruned.folded(example.shape)(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_a_network_that_ends_earlier_holds_and_computes_less(example: Example) -> None:
    method = sae_of(wrapped(example))
    early, late = (method.pruned_to(active) for active in ([1, 0, 0], [1, 0, 1]))
    for measure in (measure_cost, measure_shipped_cost):
        less, more = measure(early, example.shape), measure(late, example.shape)
        assert (less.params < more.params, less.flops < more.flops) == (True, True)
    assert "stage_2" in measure_cost(late, example.shape).by_part
    assert "stage_2" not in measure_cost(early, example.shape).by_part


@pytest.mark.parametrize("settings", METHODS, ids=lambda settings: settings.name)
@pytest.mark.parametrize("example", [EXAMPLES[name] for name in DIFFERENT], ids=DIFFERENT)
def test_every_method_trains_any_module(example: Example, settings: MethodSettings) -> None:
    backbone = wrapped(example)
    method, x = build_method(settings, backbone, backbone.spec), samples(example)
    for stream in range(method.num_streams):
        batch = Batch(x, torch.arange(6) % 3, stream)
        method.training_loss(batch, 0.5, torch.Generator().manual_seed(0)).total.backward()
    assert [name for name, parameter in method.named_parameters() if parameter.grad is None] == []
    method.eval()
    with torch.no_grad():
        outputs = method.shipped_outputs(x)
        if settings.name != "sae":
            shipped = method.pruned().folded(example.shape).eval()
            torch.testing.assert_close(shipped(x), outputs, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(method.shipped_outputs(x[:1]), outputs[:1], rtol=1e-4, atol=1e-5)
    assert cost_of(settings, backbone, example.shape, 3).flops > 0


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_equal_inputs_give_the_features_of_the_pretrained_module(example: Example) -> None:
    inputs = 3
    module = example.make().eval()
    backbone = wrap(module, example.sample, example.exits, inputs=inputs, pretrained=True).eval()
    x = samples(example)
    with torch.no_grad():
        found = backbone(torch.cat([x] * inputs, dim=1))
        for one, other in zip(found, exit_features(module, x, example.exits), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_weights_of_a_widened_layer_differ_between_inputs_and_sum_to_those_of_the_module() -> None:
    layer = nn.Conv2d(3, 16, 3)
    by_input = widened(layer, 3, "conv", spread=0.5).weight.unflatten(1, (3, 3))
    torch.testing.assert_close(by_input.sum(dim=1), layer.weight)
    assert not torch.allclose(by_input[:, 0], by_input[:, 1])
    equal = widened(layer, 3, "conv").weight.unflatten(1, (3, 3))
    torch.testing.assert_close(equal, (layer.weight / 3)[:, None].expand(-1, 3, -1, -1, -1))


def test_a_wrapped_module_stays_as_it_was() -> None:
    module = Vgg().train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    backbone = wrap(module, torch.zeros(3, 16, 16), EXAMPLES["vgg"].exits, inputs=2, outputs=3)
    method = build_method(SaeConfig(inputs=2, exits=2), backbone, backbone.spec)
    loss = method.training_loss(Batch(torch.randn(4, 3, 16, 16), torch.arange(4) % 3), 0.0, torch.Generator())
    loss.total.backward()
    for name, value in module.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    assert all(item.training for item in module.modules())
    assert [item.inplace for item in module.modules() if isinstance(item, nn.ReLU)] == [True] * 4
    assert all(parameter.grad is None for parameter in module.parameters())


def first_weights(method: Method) -> list[Tensor]:
    return [next(member.parameters()) for member in method.network.members]  # type: ignore[union-attr]


@pytest.mark.parametrize("module", [Resnet, Resnet()], ids=["function", "module"])
def test_members_of_a_deep_ensemble_start_from_weights_that_follow_from_the_seed(
    module: nn.Module | Callable[[], nn.Module],
) -> None:
    backbone = wrap(module, EXAMPLES["resnet"].sample, ["layer1", "layer3"], outputs=3)
    one, again, other = (
        first_weights(build_method(EnsembleConfig(members=2), backbone, backbone.spec, seed)) for seed in (0, 0, 1)
    )
    assert not torch.allclose(one[0], one[1])
    assert not torch.allclose(one[0], other[0])
    torch.testing.assert_close(one, again, rtol=0, atol=0)


def test_members_with_pretrained_weights_differ_in_their_heads_alone() -> None:
    module = Resnet()
    backbone = wrap(module, EXAMPLES["resnet"].sample, ["layer1", "layer3"], outputs=3, pretrained=True)
    method = build_method(EnsembleConfig(members=2), backbone, backbone.spec)
    one, other = (dict(member.named_parameters()) for member in method.network.members)  # type: ignore[union-attr]
    assert [name for name in one if not torch.equal(one[name], other[name])] == ["exit.1.weight", "exit.1.bias"]
    torch.testing.assert_close(one["backbone.stem.conv1.weight"], module.conv1.weight)


def test_pretrained_weights_first_see_the_same_sample_at_all_inputs() -> None:
    example = EXAMPLES["mlp"]
    kept, fresh = (wrap(example.make, example.sample, pretrained=is_kept, outputs=3) for is_kept in (True, False))
    given = SaeConfig(repeat_fraction=UnitSchedule(start=0.2, end=0.3))

    def fractions(settings: SaeConfig, backbone: WrappedBackbone) -> list[float]:
        method = build_method(settings, backbone, backbone.spec)
        assert isinstance(method, Sae)
        return [method.settings.repeat_fraction.at(progress) for progress in (0.0, 1.0)]

    assert fractions(SaeConfig(), kept) == [1.0, 0.5]
    assert fractions(SaeConfig(), fresh) == [0.0, 0.5]
    assert fractions(given, kept) == [0.2, 0.3]


def test_kinds_of_features_are_found_from_shapes_and_layers() -> None:
    kinds = {name: wrapped(example).stage_info[0].kind for name, example in EXAMPLES.items()}
    assert kinds == {
        "mlp": FeatureKind.VECTOR,
        **dict.fromkeys(("vgg", "resnet", "convnext", "mobilenet", "skips"), FeatureKind.MAP),
        **dict.fromkeys(("vit", "mixer"), FeatureKind.TOKENS),
        "signals": FeatureKind.SIGNAL,
        "volumes": FeatureKind.VOLUME,
    }


class Joined(nn.Module):
    """Joins what it was given with its own features, as DenseNet does."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.conv(x)], dim=1)


def test_joined_features_are_of_the_kind_of_those_that_were_joined() -> None:
    backbone = wrap(lambda: nn.Sequential(Joined(3), Joined(7)), torch.zeros(3, 5, 5), ["0", "1"])
    assert [info.kind for info in backbone.stage_info] == [FeatureKind.MAP, FeatureKind.MAP]
    assert [info.shape for info in backbone.stage_info] == [(7, 5, 5), (11, 5, 5)]


def test_a_kind_that_no_layer_tells_must_be_given() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Flatten(), nn.Unflatten(1, (10, 10)))
    with pytest.raises(ConfigError, match=r"'2' returns \[10, 10\], and no layer before it .* kinds=\{'2': 'tokens'\}"):
        wrap(module, torch.zeros(3, 5, 5), ["2"])


def test_the_kind_of_an_exit_can_be_given() -> None:
    backbone = wrap(SignalNet, torch.zeros(2, 20), ["bn1", "conv3"], kinds={"bn1": "tokens"})
    assert [info.kind for info in backbone.stage_info] == [FeatureKind.TOKENS, FeatureKind.SIGNAL]
    with pytest.raises(ConfigError, match=r"kind of an exit must be one of vector, .*; got 'picture' for 'bn1'"):
        wrap(SignalNet, torch.zeros(2, 20), ["bn1"], kinds={"bn1": "picture"})
    with pytest.raises(ConfigError, match="kinds must be those of exits, bn1; got one of 'conv1'"):
        wrap(SignalNet, torch.zeros(2, 20), ["bn1"], kinds={"conv1": "signal"})


class Twice(nn.Module):
    """Runs one layer twice, returns a tuple from another, and has one that never runs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again, self.unused = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.pair = nn.LSTM(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.again(self.again(self.first(x)))
        return self.pair(x)[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("exits", "message"),
    [
        (["first", "unused"], "must run exactly once for a sample, but 'unused' does not run"),
        (["first", "nothing"], "but 'nothing' does not run; these run: first, again, pair"),
        (["first", "again"], "but 'again' runs 2 times"),
        (["first", "pair"], "must return one tensor with the samples first, but 'pair' returns no tensor"),
        ([], "exits must be different names of submodules, at least one, got none"),
        (["first", "first"], "exits must be different names"),
    ],
)
def test_an_exit_that_cannot_be_one_is_refused(exits: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        wrap(Twice(), torch.zeros(4), exits)


def test_exits_must_be_given_in_the_order_in_which_they_run() -> None:
    with pytest.raises(ConfigError, match="in which they run, layer1, layer2, layer3; got layer2, layer1, layer3"):
        wrap(Resnet(), EXAMPLES["resnet"].sample, ["layer2", "layer1", "layer3"])


def test_a_sample_that_the_module_does_not_take_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"must take a batch of samples of shape \[2, 3, 32, 32\], but it fails"):
        wrap(Resnet(), torch.zeros(2, 3, 32, 32), ["layer1"])


@pytest.mark.parametrize(
    ("layers", "widen", "message"),
    [
        ([nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1)], None, "must be the first one with weights, but 0 runs before 1"),
        ([nn.Conv2d(4, 4, 1, groups=4), nn.ReLU()], None, "must be a Linear or an ungrouped convolution, got 0"),
        ([nn.ReLU(), nn.Conv2d(4, 4, 1)], "0", "must be a Linear or an ungrouped convolution, got 0, ReLU"),
        ([nn.Linear(5, 5), nn.ReLU()], None, "with 0 widened, the module must take 2 samples joined on channels"),
    ],
)
def test_a_first_layer_that_cannot_take_several_inputs_is_refused(
    layers: list[nn.Module], widen: str | None, message: str
) -> None:
    module = nn.Sequential(*layers)
    wrap(module, torch.zeros(4, 5, 5), ["1"], widen=widen, kinds={"1": "map"})
    with pytest.raises(ConfigError, match=message):
        wrap(module, torch.zeros(4, 5, 5), ["1"], widen=widen, inputs=2, kinds={"1": "map"})


class ChannelsLastPatches(nn.Module):
    """Puts the channels of all inputs behind each other at every pixel, so that those of one sample are apart."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.act = nn.LazyLinear(8), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.embed(x.permute(0, 2, 3, 1).flatten(1)))  # type: ignore[no-any-return]


def test_inputs_whose_channels_mix_before_the_first_layer_are_refused() -> None:
    module = ChannelsLastPatches()
    module(torch.zeros(1, 2, 3, 3))
    with pytest.raises(ConfigError, match="2 equal samples joined on channels must give the features of one"):
        wrap(module, torch.zeros(2, 3, 3), ["act"], inputs=2)


class Odd(Mlp):
    """An MLP with a forward of its own, which no stage can stand for."""

    def __init__(self, forward: Callable[["Odd", Tensor], Tensor]) -> None:
        super().__init__()
        self._forward = forward

    def forward(self, x: Tensor) -> Tensor:
        return self._forward(self, x)


def depends_on_data(net: Odd, x: Tensor) -> Tensor:
    x = net.act2(net.fc1(x))
    x = net.act3(net.fc2(x) if bool(x.sum() > -1e9) else x)
    return net.out(net.fc3(x))  # type: ignore[no-any-return]


def shares_weights(net: Odd, x: Tensor) -> Tensor:
    x = net.act2(net.fc2(net.fc1(x)))
    x = net.act3(net.fc3(net.fc2(x)))
    return net.out(x)  # type: ignore[no-any-return]


def differs_in_training(net: Odd, x: Tensor) -> Tensor:
    x = net.act2(net.fc1(x))
    x = net.act3(net.fc3(F.dropout(net.fc2(x), 0.0, net.training)))
    return net.out(x)  # type: ignore[no-any-return]


ODD = {
    "depends on the values of the data": depends_on_data,
    "several of its stages use the weights of fc2": shares_weights,
    "differs between training and evaluation": differs_in_training,
}


@pytest.mark.parametrize("reason", ODD)
def test_a_module_that_cannot_be_cut_says_why_and_still_stops_at_its_last_used_exit(reason: str) -> None:
    with pytest.warns(UncutWarning, match=f"Odd stays in one piece up to its last used exit.*{reason}"):
        backbone = wrap(lambda: Odd(ODD[reason]), torch.zeros(6), ["act2", "act3"], outputs=3)
    method, x = sae_of(backbone), torch.randn(5, 6)
    with torch.no_grad():
        whole = method.network(torch.stack([x, x], dim=1))
        for active in ([2, 0], [0, 2], [1, 2]):
            pruned = method.pruned_to(active)
            expected = torch.stack([whole[:, i, j] for i, j in pruned.members], dim=1)
            torch.testing.assert_close(pruned(x), expected)
            torch.testing.assert_close(pruned.folded((6,))(x), expected, rtol=1e-4, atol=1e-5)
    early, late = method.pruned_to([1, 0]), method.pruned_to([0, 1])
    held = [{name.split(".")[1] for name, _ in network.stem.named_parameters()} for network in (early, late)]
    assert "out" not in held[1]
    assert held[0] == ({"fc1", "fc2"} if ODD[reason] is shares_weights else {"fc1"})


def overwrites_features(net: Odd, x: Tensor) -> Tensor:
    first = net.fc1(x)
    second = net.fc2(F.relu(first, inplace=True))
    second += first
    return net.out(net.act3(second))  # type: ignore[no-any-return]


def test_features_that_a_later_operation_overwrites_are_those_of_the_exit() -> None:
    backbone = wrap(lambda: Odd(overwrites_features), torch.zeros(6), ["fc1", "fc2", "act3"], outputs=3)
    x = torch.randn(5, 6)
    first, second, third = backbone(x)
    assert backbone.uncut_reason is None
    assert (first < 0).any()
    torch.testing.assert_close(third, torch.tanh(second + F.relu(first)))


def test_what_computes_a_batch_size_works_at_any_batch_size() -> None:
    backbone = wrapped(EXAMPLES["vit"])
    assert [len(backbone(torch.zeros(count, 3, 16, 16))[-1]) for count in (1, 4, 7)] == [1, 4, 7]


SUGGESTED = {
    "mlp": ["fc1", "act2", "act3"],
    "vgg": ["features.3", "features.7", "features.11"],
    "resnet": ["layer1", "layer2", "layer3"],
    "convnext": ["stages.0", "stages.1", "stages.2"],
    "mobilenet": ["features.0", "features.1", "features.2", "features.3"],
    "vit": ["blocks.0", "blocks.1", "blocks.2"],
    "mixer": ["mixer.0", "mixer.1", "mixer.2"],
    "signals": ["bn1", "pool", "conv3"],
    "volumes": ["stem", "body", "tail"],
    "skips": ["down1", "down2", "middle"],
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_blocks_of_the_trunk_are_suggested_as_exits(name: str) -> None:
    example = EXAMPLES[name]
    assert suggest_exits(example.make(), example.sample) == SUGGESTED[name]


def test_of_many_blocks_evenly_spaced_ones_are_suggested_and_the_last() -> None:
    layers = itertools.chain.from_iterable((nn.Linear(4, 4), nn.ReLU()) for _ in range(12))
    module = nn.Sequential(nn.Sequential(*layers), nn.Linear(4, 3))
    assert suggest_exits(module, torch.zeros(4), most=4) == ["0.5", "0.11", "0.17", "0.23"]


def test_stages_that_a_network_names_itself_are_suggested() -> None:
    module = Resnet()
    module.feature_info = [{"module": "layer1"}, {"module": "layer3"}]  # type: ignore[assignment]
    assert suggest_exits(module, EXAMPLES["resnet"].sample) == ["layer1", "layer3"]


class PublishedResnet(Resnet):
    """A network in timm's manner: it names its stages, and returns their features."""

    feature_info: ClassVar[list[dict[str, str]]] = [{"module": name} for name in ("relu", "layer1", "layer2", "layer3")]

    def forward_intermediates(self, x: Tensor, *, intermediates_only: bool = False) -> list[Tensor]:
        assert intermediates_only
        found = [self.relu(self.bn1(self.conv1(x)))]
        found.append(self.layer1(self.maxpool(found[-1])))
        found.append(self.layer2(found[-1]))
        return [*found, self.layer3(found[-1])]


class PublishedVit(Vit):
    """Tokens, which are returned as maps without the class token, as timm does it."""

    feature_info: ClassVar[list[dict[str, str]]] = [{"module": f"blocks.{number}"} for number in range(3)]

    def forward_intermediates(self, x: Tensor, *, intermediates_only: bool = False) -> list[Tensor]:
        tokens = self.patchify(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), tokens], dim=1) + self.pos_embed
        found = []
        for block in self.blocks:
            tokens = block(tokens)
            found.append(tokens[:, 1:].transpose(1, 2).unflatten(2, (4, 4)))
        return found


class LastReturnedNormalised(PublishedVit):
    def forward_intermediates(self, x: Tensor, *, intermediates_only: bool = False) -> list[Tensor]:
        *found, last = super().forward_intermediates(x)
        return [*found, self.norm(last.movedim(1, -1)).movedim(-1, 1)]


class OneReturnedLess(PublishedVit):
    def forward_intermediates(self, x: Tensor, *, intermediates_only: bool = False) -> list[Tensor]:
        return super().forward_intermediates(x)[1:]


class ReturnedByName(PublishedVit):
    def forward_intermediates(self, x: Tensor) -> list[Tensor]:  # type: ignore[override]
        return super().forward_intermediates(x)


def test_stages_of_a_network_that_returns_their_features_are_its_exits_with_the_same_features() -> None:
    module, sample = PublishedResnet().eval(), EXAMPLES["resnet"].sample
    backbone = wrap(module, sample, pretrained=True).eval()
    assert backbone.blueprint.exits == ("relu", "layer1", "layer2", "layer3")
    x = samples(EXAMPLES["resnet"])
    with torch.no_grad():
        for found, returned in zip(backbone(x), module.forward_intermediates(x, intermediates_only=True), strict=True):
            torch.testing.assert_close(found, returned)


def test_tokens_are_the_features_of_a_network_that_returns_them_as_maps() -> None:
    assert suggest_exits(PublishedVit(), EXAMPLES["vit"].sample) == ["blocks.0", "blocks.1", "blocks.2"]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (LastReturnedNormalised, r"its forward_intermediates returns other features than blocks\.2; an exit reads"),
        (OneReturnedLess, "must return one tensor for each of them, got 2"),
        (ReturnedByName, "which would confirm them, fails: .*unexpected keyword argument"),
    ],
)
def test_a_network_whose_features_differ_from_its_stages_is_named(make: Callable[[], nn.Module], reason: str) -> None:
    with pytest.warns(FeaturesWarning, match=f"stages that feature_info of {make.__name__} names, but .*{reason}"):
        assert suggest_exits(make(), EXAMPLES["vit"].sample) == ["blocks.0", "blocks.1", "blocks.2"]


def test_a_network_in_which_nothing_runs_once_has_no_exits_to_suggest() -> None:
    class Looped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.ModuleList([nn.Linear(4, 4)]), nn.ModuleList([nn.Linear(4, 4)])])

        def forward(self, x: Tensor) -> Tensor:
            for item in (*self.layers, *self.layers):
                x = item[0](x)
            return x

    with pytest.raises(ConfigError, match="no submodule of this module can be an exit: name exits yourself"):
        suggest_exits(Looped(), torch.zeros(4))


def test_outputs_must_be_given_before_a_spec_is_asked_for() -> None:
    example = EXAMPLES["mlp"]
    assert wrap(example.make, example.sample, outputs=4).spec == DataSpec((6,), Classification(4))
    with pytest.raises(ConfigError, match=r"number of outputs is not known: give it to wrap"):
        _ = wrap(example.make, example.sample).spec


def test_a_loop_of_ones_own_takes_a_wrapped_module() -> None:
    example = EXAMPLES["mlp"]
    network = SingleArchitectureEnsemble(wrapped(example), Classification(3), 2, 2, shape=example.shape)
    network.loss(samples(example), torch.arange(6) % 3, progress=0.5).backward()
    assert network.eval().predict(samples(example)).mean.shape == (6, 3)


def test_several_streams_are_refused_on_a_wrapped_module() -> None:
    backbone = wrapped(EXAMPLES["mlp"])
    with pytest.raises(ConfigError, match=r"method\.members must be 1 on Mlp, whose layers mix all features, got 2"):
        build_method(PackedConfig(members=2), backbone, backbone.spec)


def test_the_layers_of_an_encoder_of_torch_are_suggested() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)  # it holds one list, which does not run
    assert suggest_exits(nn.Sequential(nn.Linear(4, 8), encoder, nn.Linear(8, 2)), torch.zeros(5, 4)) == [
        "1.layers.0",
        "1.layers.1",
        "1.layers.2",
    ]


def test_a_block_with_most_weights_but_one_layer_is_not_taken_apart() -> None:
    blocks = [nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU()) for width in (4, 16)]
    assert suggest_exits(nn.Sequential(*blocks, nn.Linear(64, 2)), torch.zeros(4)) == ["0", "1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("resnet", torch.zeros(6)), "module must be a torch.nn.Module, or a function without arguments.*got str"),
        (
            (lambda size: nn.Linear(size, 3), torch.zeros(6)),
            "cannot be called without arguments: missing a required argument: 'size'",
        ),
        ((lambda: 3, torch.zeros(6)), "but it returns int"),
        ((Mlp, (6,)), "sample must be one sample as a tensor, without a batch, got tuple"),
        ((Mlp, torch.zeros(6), "act2"), r"exits must be a list of names, got the text 'act2': give \['act2'\]"),
    ],
)
def test_arguments_of_another_kind_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        wrap(*arguments)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"inputs": 0}, "inputs must be a whole number of at least 1, got 0"),
        ({"outputs": 2.5}, "outputs must be a whole number of at least 1, got 2.5"),
        ({"widen": "fc9"}, "the layer that takes the samples must run once, before the first exit, but 'fc9' runs 0"),
    ],
)
def test_settings_that_cannot_hold_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        wrap(Mlp, torch.zeros(6), **more)


def test_a_method_refuses_a_module_that_is_not_wrapped_and_names_the_way() -> None:
    spec = DataSpec((6,), Classification(3))
    with pytest.raises(ConfigError, match=r"got Mlp: give sae\.wrap\(module, sample\)"):
        build_method(SaeConfig(inputs=2, exits=2), Mlp(), spec)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="method must be settings such as SaeConfig"):
        build_method("sae", FcConfig(), spec)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="spec must be a DataSpec, got NoneType"):
        build_method(SaeConfig(inputs=2, exits=2), FcConfig(), None)  # type: ignore[arg-type]


def test_a_network_that_looks_at_values_has_no_cost_and_says_so() -> None:
    with pytest.warns(UncutWarning):
        backbone = wrap(lambda: Odd(depends_on_data), torch.zeros(6), ["act2", "act3"], outputs=3)
    with pytest.raises(CostError, match="must not look at the values of its samples"):
        measure_cost(sae_of(backbone).pruned_to([1, 1]), (6,))


def test_an_lstm_has_a_cost() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.lstm = nn.Linear(3, 4), nn.LSTM(4, 5, batch_first=True)
            self.second, self.last = nn.Linear(5, 6), nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.second(self.lstm(self.first(x))[0][:, -1]))  # type: ignore[no-any-return]

    backbone = wrap(Recurrent, torch.zeros(7, 3), ["second"], outputs=2)
    gates = 4 * (5 * (4 + 5) + 3 * 5)  # each from 4 features and 5 states, with two biases and a sum
    state = 4 * 5 + 5 + 3 * 5 + 5  # the functions of the gates and of the state, three products and a sum
    found = measure_cost(build_method(StandardConfig(), backbone, backbone.spec).eval().pruned(), (7, 3)).flops
    assert found == 7 * 4 * (3 + 1) + 7 * (gates + state) + 6 * (5 + 1) + 2 * (6 + 1)
