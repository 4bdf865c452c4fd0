"""The ensemble in one network as an `nn.Module`, for people who write their own training loop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from sae.backbones import MemberNetwork
from sae.backbones.base import evaluating
from sae.backbones.wrapped import WrappedBackbone
from sae.config.backbones import BackboneSettings
from sae.config.methods import SaeConfig
from sae.config.settings import parse
from sae.core.errors import ConfigError, DataError
from sae.core.predictive import member_values
from sae.core.seeds import derive_seed
from sae.core.task import Classification, DataSpec, Regression, Shape, Task, num_targets
from sae.deploy.graph import Aggregation
from sae.deploy.manifest import Manifest
from sae.deploy.method_export import TrainedMethod, export_method
from sae.methods import Batch, build_method
from sae.methods.sae import Sae


@dataclass(frozen=True)
class EnsemblePrediction:
    """The prediction of an ensemble, and those of its members.

    Attributes:
        mean: Probabilities, (batch, class); or for regression the mean in the units of the data, (batch,).
        variance: The variance of a regression, (batch,): the mean variance of the members plus the variance of their
            means. None for classes.
        entropy: Uncertainty of the prediction in nats, (batch,).
        disagreement: Disagreement between the members, (batch,).
        members: Predictions of the members in use, (batch, member, out), ordered by exit, then input: probabilities of
            the classes, or mean and variance.
        weights: Their weights, (member,), summing to 1.
    """

    mean: Tensor
    variance: Tensor | None
    entropy: Tensor
    disagreement: Tensor
    members: Tensor
    weights: Tensor


class SingleArchitectureEnsemble(nn.Module):
    """An ensemble in one network: N inputs, and up to K learnt exits for each.

    It is a thin wrapper of the method `sae`, so it trains the same network as `sae train`. Calling the module returns
    the loss, so that wrappers such as `DistributedDataParallel` and `torch.compile` work.

    Shape of samples: (batch, *shape), already prepared for the network, e.g. normalised float32 images.

    Args:
        backbone: The name of a backbone, `"vgg"`; its settings, `{"name": "vgg", "width": 2}`; or a module of your own
            that `sae.wrap` made a backbone of.
        task: `Classification(10)`, or `Regression(mean, std)` with the mean and deviation of the training targets.
        inputs: N, the samples that one pass reads in training; more than one needs more steps.
        exits: K, the exits per input; by default all of the backbone.
        shape: The shape of one sample: (channel, height, width), (channel, length) or (feature,). A wrapped module
            knows its own.
        seed: Seed of the weights, and of the module's own generator.
        settings: Other settings of the method, such as `repeat_fraction={"start": 0.0, "end": 0.5}`.

    Attributes:
        method: The method.
        backbone_name: The name of the backbone.
        spec: The shape of a sample, and the task.
        generator: The generator that `loss` uses if it is given none.

    Example:
        >>> import sae
        >>> model = sae.SingleArchitectureEnsemble("fc", sae.Classification(3), exits=2, shape=(4,))
        >>> optimizer = torch.optim.AdamW(model.parameter_groups(), lr=1e-3, weight_decay=1e-5)
        >>> x, y = torch.randn(8, 4), torch.arange(8) % 3
        >>> model.loss(x, y, progress=0.0).backward()
        >>> optimizer.step()
        >>> prediction = model.predict(x)
        >>> tuple(prediction.mean.shape), tuple(prediction.members.shape)
        ((8, 3), (8, 2, 3))
    """

    def __init__(
        self,
        backbone: str | Mapping[str, object] | BackboneSettings | WrappedBackbone,
        task: Task,
        inputs: int = 1,
        exits: int | None = None,
        *,
        shape: Shape | None = None,
        seed: int = 0,
        **settings: object,
    ) -> None:
        super().__init__()
        if not isinstance(task, Task):
            raise ConfigError(f"task must be sae.Classification(10) or sae.Regression(mean, std), got {task!r}")
        if type(task) not in (Classification, Regression) or num_targets(task) is not None:
            raise ConfigError(f"a loop of your own predicts classes or one value, got {task!r}: use the command line")
        source = _backbone_source(backbone)
        given = parse(SaeConfig, {"inputs": inputs, "exits": source.depth if exits is None else exits, **settings})
        self.backbone_name, self.spec = source.name, DataSpec(_sample_shape(source, shape), task)
        method = build_method(given, source, self.spec, seed)
        assert isinstance(method, Sae), f"the settings of sae must build it, got {type(method).__name__}"
        self.method = method
        self.generator = torch.Generator().manual_seed(derive_seed(seed, "own loop"))

    def forward(self, x: Tensor, y: Tensor, progress: float, generator: torch.Generator | None = None) -> Tensor:
        """Return `loss`, for wrappers that call the module."""
        return self.loss(x, y, progress, generator)

    def loss(
        self,
        x: Tensor,
        y: Tensor,
        progress: float,
        generator: torch.Generator | None = None,
        *,
        population: int | None = None,
    ) -> Tensor:
        """Return the loss of one step, a scalar with a gradient.

        Shapes and types are always checked. Values (finite samples, labels of known classes) are checked on the CPU
        only: a GPU would have to wait.

        Args:
            x: Samples, (batch, *shape).
            y: Targets, (batch,): class indices, or values in the units of the data.
            progress: The progress of training, from 0 at the first step to 1 at the last; schedules follow it.
            generator: A generator on the CPU, which mixes the inputs and samples exits; by default the module's own.
            population: The number of training samples, which only `scale_data_fit=True` needs.
        """
        if not 0 <= progress <= 1:
            raise ConfigError(f"progress must be in [0, 1], got {progress}: give step / steps")
        if self.method.settings.scale_data_fit and population is None:
            raise ConfigError("scale_data_fit needs the number of training samples: give population to the loss")
        batch = Batch(self._checked(x), self._learnt_targets(x, y), population=population)
        loss = self.method.training_loss(batch, progress, generator or self.generator).total
        self.method.progress = 1.0  # so that predictions do not depend on the last step
        return loss

    def predict(self, x: Tensor, exits: int | None = None) -> EnsemblePrediction:
        """Return the prediction of the ensemble at K′ exits, without a gradient and in evaluation mode.

        The exits are weighted at the final temperature of the schedule, also before training has ended.

        Args:
            x: Samples, (batch, *shape).
            exits: K′, the exits that each input keeps, from 1 to the depth of the backbone; by default the trained K.
        """
        weights = self.method.exit_weights(exits)  # (input, exit)
        place = (weights.T > 0).nonzero()  # [exit, input], by exit
        used = place[:, 1] * self.method.depth + place[:, 0]
        with torch.no_grad(), evaluating(self):
            outputs = self.method.member_outputs(self._checked(x))
        return _prediction(self.spec.task, outputs[:, used], self.method.member_weights(exits)[used])

    def exit_weights(self, exits: int | None = None) -> Tensor:
        """Return θ*, the weight of each exit of each input at K′, (input, exit); rows sum to 1."""
        return self.method.exit_weights(exits)

    def parameter_groups(self) -> list[dict[str, object]]:
        """Return all parameters in groups for an optimiser of torch.

        The exit logits do not decay. The other group has no weight decay of its own, so the optimiser's applies.
        """
        return [
            {"params": group.parameters, **({} if group.decays else {"weight_decay": 0.0})}
            for group in self.method.parameter_groups()
        ]

    def compile(self, *args: object, **options: object) -> None:
        """Compile the network in place with `torch.compile`; the arguments are passed on.

        The random draws around it are not compiled: they would be compiled again whenever a schedule moves.
        """
        self.method.network.compile(*args, **options)

    def prune(self, exits: int | None = None) -> "PrunedEnsemble":
        """Return a new network with only the parts that predict at K′ exits.

        Args:
            exits: K′, from 1 to the depth of the backbone; by default the trained K.
        """
        return PrunedEnsemble(self.method.pruned(exits), self.spec)

    def export(
        self,
        path: Path | str,
        sample: Tensor,
        exits: int | None = None,
        *,
        class_names: Sequence[str] | None = None,
        force: bool = False,
    ) -> Manifest:
        """Write the network as ONNX with a manifest beside it, if onnxruntime's predictions agree with this network's.

        `sae.load(path).predict(array)` then needs no torch. The graph takes samples as `predict` takes them.

        Args:
            path: The `.onnx` file. Its folder holds this one model.
            sample: Real samples to compare on, (batch, *shape).
            exits: K′ to ship; by default the trained K.
            class_names: Names of the classes in their order; by default their numbers.
            force: Replace another model in the folder.
        """
        trained = TrainedMethod(self.method, self.method.settings, self.backbone_name, self.spec, class_names)
        return export_method(trained, Path(path), self._checked(sample).detach().cpu().numpy(), exits, force=force)

    def _checked(self, x: Tensor) -> Tensor:
        return _check_samples(x, self.spec.shape, next(self.method.parameters()).dtype)

    def _learnt_targets(self, x: Tensor, y: Tensor) -> Tensor:
        """Return class indices unchanged, or standardised values."""
        if not len(x):
            raise DataError("a batch must have at least one sample, got none")
        if not isinstance(y, Tensor):
            raise DataError(f"targets must be a tensor, got {type(y).__name__}: convert them with torch.as_tensor(y)")
        if y.shape != x.shape[:1]:
            raise DataError(f"targets must be (batch,), one for each of {len(x)} samples, got {tuple(y.shape)}")
        if isinstance(self.spec.task, Regression):
            _check_finite(y, "targets")
            mean, std = torch.tensor([self.spec.task.mean, self.spec.task.std], dtype=torch.float64)
            scaled: Tensor = (y.double() - mean) / std
            return scaled.float()
        if y.is_floating_point():
            raise DataError(f"targets must be class indices, whole numbers, got {y.dtype}: convert them with .long()")
        return _check_classes(y.long(), self.spec.task)


class PrunedEnsemble(nn.Module):
    """A pruned network that predicts like the ensemble it comes from, and holds nothing else.

    Attributes:
        network: Maps samples, (batch, *shape), to the raw outputs of its members, (batch, member, out); its cost is
            `sae.measure_cost(network, shape)`.
        spec: The shape of a sample, and the task.
    """

    def __init__(self, network: MemberNetwork, spec: DataSpec) -> None:
        super().__init__()
        self.network, self.spec = network.eval(), spec

    def forward(self, x: Tensor) -> Tensor:
        """Return the prediction of the ensemble: probabilities (batch, class), or means (batch,)."""
        return self.predict(x).mean

    def predict(self, x: Tensor) -> EnsemblePrediction:
        """Return the prediction of the ensemble, without a gradient and in evaluation mode."""
        with torch.no_grad(), evaluating(self):
            outputs = self.network(_check_samples(x, self.spec.shape, next(self.network.parameters()).dtype))
        return _prediction(self.spec.task, outputs, self.network.weights)


def _prediction(task: Task, outputs: Tensor, weights: Tensor) -> EnsemblePrediction:
    """Aggregate the raw outputs of the members in use as an exported graph does, in float32 at least."""
    aggregation, outputs = Aggregation(task, weights), outputs.float()
    found = dict(zip(aggregation.output_names, aggregation(outputs), strict=True))
    return EnsemblePrediction(
        mean=found["mean"] if isinstance(task, Regression) else found["probs"],
        variance=found.get("variance"),
        entropy=found["entropy"],
        disagreement=found["disagreement"],
        members=member_values(task, outputs),
        weights=weights,
    )


def _backbone_source(
    given: str | Mapping[str, object] | BackboneSettings | WrappedBackbone,
) -> BackboneSettings | WrappedBackbone:
    """Return the settings of a backbone given by its name or by some settings; return anything else unchanged."""
    if isinstance(given, str):
        given = {"name": given}
    if isinstance(given, BackboneSettings | WrappedBackbone):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(
            "backbone must be the name of a backbone, its settings or a wrapped module, "
            f"got {type(given).__name__}: give sae.wrap(module, sample) for a module of your own"
        )
    return parse(BackboneSettings.class_of(given.get("name"), "backbone"), given)


def _sample_shape(source: BackboneSettings | WrappedBackbone, shape: Shape | None) -> Shape:
    """Return the shape of one sample; a wrapped module knows it, and a different one is refused."""
    known = source.sample_shape if isinstance(source, WrappedBackbone) else None
    if isinstance(shape, int):
        raise ConfigError(f"shape must be a tuple of sizes, such as ({shape},), got {shape}")
    if known is None and shape is None:
        raise ConfigError(f"shape must be given for the backbone {source.name}: that of one sample, e.g. (3, 32, 32)")
    if known is not None and shape is not None and tuple(shape) != known:
        raise ConfigError(f"shape must be that of the sample {source.name} was wrapped with, {known}, got {shape}")
    return known or tuple(shape or ())


def _check_samples(x: Tensor, shape: Shape, dtype: torch.dtype) -> Tensor:
    """Refuse samples that do not suit a network with weights of this type."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise DataError(f"samples must be a tensor of floats, got {kind}: convert them with torch.as_tensor(x).float()")
    if x.shape[1:] != shape:
        raise DataError(f"samples must be (batch, {', '.join(map(str, shape))}), got {tuple(x.shape)}")
    is_cast = torch.is_autocast_enabled(x.device.type) and x.dtype != torch.float64  # autocast leaves float64 alone
    if x.dtype != dtype and not is_cast:
        raise DataError(f"samples must be {dtype}, as the weights are, got {x.dtype}: convert them with .to({dtype})")
    _check_finite(x, "samples")
    return x


def _check_finite(values: Tensor, noun: str) -> None:
    if _can_check(values) and not bool(values.isfinite().all()):
        count = int((~values.isfinite()).reshape(len(values), -1).any(dim=1).sum())
        raise DataError(f"{noun} must be finite, but {count} of {len(values)} hold NaN or infinity: fill or drop them")


def _check_classes(labels: Tensor, task: Task) -> Tensor:
    assert isinstance(task, Classification), f"only classes have labels, got {task}"
    if _can_check(labels):
        low, high = (int(value) for value in labels.aminmax())
        if low < 0 or high >= task.num_classes:
            raise DataError(
                f"targets must be class indices from 0 to {task.num_classes - 1}, got {low if low < 0 else high}: "
                "number the classes from 0, or give Classification their number"
            )
    return labels


def _can_check(values: Tensor) -> bool:
    """Return whether values can be checked without waiting for a device, and without breaking a compiled graph."""
    return values.device.type == "cpu" and not torch.compiler.is_compiling()
