"""Export of a trained method without a run: from a custom training loop, or from an estimator."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors.torch import save

from sae.backbones.base import copy_of
from sae.config.methods import MethodSettings
from sae.core.errors import DataError
from sae.core.task import Classification, DataSpec
from sae.data.dataset import ColumnEncoding, Depth, Normalisation
from sae.deploy.card import write_card
from sae.deploy.conformal import ConformalPart
from sae.deploy.description import cost_part, input_part, network_part, package_versions, target_part
from sae.deploy.evaluation import PARITY_SAMPLES, Metrics, compare_graph
from sae.deploy.graph import SampleForm, sample_dtype, shipped_content
from sae.deploy.manifest import GraphPart, Manifest, RunPart, sha256_of
from sae.deploy.model_folder import alone_in_folder, find_model, write_model
from sae.deploy.session import Samples, Session
from sae.methods import Method
from sae.records.receipt import RefitPart

ANY_SCALE: Depth = 32


@dataclass(frozen=True)
class PreparedSamples:
    """The form of samples that need no preparation: numbers on any scale.

    Attributes:
        spec: The shape of a sample, and the task.
        frame: No frame is added to images.
        depth: Images are not bytes.
    """

    spec: DataSpec
    frame: int = 0
    depth: Depth = ANY_SCALE

    @property
    def normalisation(self) -> Normalisation:
        """A normalisation that changes nothing."""
        channels = self.spec.shape[0]
        return Normalisation((0.0,) * channels, (1.0,) * channels)


@dataclass(frozen=True)
class TrainedMethod:
    """A trained method, and the settings it was built from.

    Attributes:
        method: The method; it is copied to the CPU.
        settings: Its settings.
        backbone: The name of its backbone, and everything else that identifies it.
        spec: The shape of a sample, and the task.
        class_names: Names of the classes in the order of the outputs; by default their numbers.
        target_names: Names of several targets; by default their numbers.
        form: The form of samples; by default they need no preparation.
        columns: How the columns of a table become features.
        metrics: Its metrics, by split.
        conformal: The scores behind its sets or intervals.
        refit: The last training on validation samples, too, if there was one.
    """

    method: Method
    settings: MethodSettings
    backbone: str
    spec: DataSpec
    class_names: Sequence[str] | None = None
    form: SampleForm | None = None
    columns: Sequence[ColumnEncoding] | None = None
    metrics: dict[str, Metrics] = field(default_factory=dict)
    conformal: ConformalPart | None = None
    refit: RefitPart | None = None
    target_names: tuple[str, ...] = ()


def export_method(
    trained: TrainedMethod, out: Path, samples: Samples, eval_exits: int | None = None, *, force: bool = False
) -> Manifest:
    """Write a method's network as ONNX, with a manifest and a model card, if its predictions agree with the method's.

    The graph takes samples as the network took them in training. Without conformal scores, the model gives no sets or
    intervals.

    Args:
        trained: The method.
        out: The `.onnx` file. Its folder holds this one model.
        samples: Samples to compare on, (sample, *sample), as the network takes them.
        eval_exits: K′ to ship; by default the trained K.
        force: Replace another model in the folder.
    """
    method, form = copy_of(trained.method).cpu().eval(), trained.form or PreparedSamples(trained.spec)
    eval_exits, class_names, compared = method.resolve_exits(eval_exits), _class_names(trained), _checked(samples, form)
    identity = _identity(trained, method)
    with alone_in_folder(out):
        found = find_model(out, identity, eval_exits, force=force)
        if found is not None:
            write_card(out.parent, found)
            return found
        content = shipped_content(method, form, eval_exits)
        session = Session(content)
        parity = compare_graph(session, method, form, eval_exits, compared)
        pruned = method.pruned(eval_exits)
        manifest = Manifest(
            task="classification" if isinstance(trained.spec.task, Classification) else "regression",
            graph=GraphPart(file=out.name, sha256=sha256_of(content), bytes=len(content), outputs=session.outputs),
            input=input_part(session, form, columns=trained.columns),
            target=target_part(trained.spec.task, class_names, trained.target_names),
            network=network_part(method, trained.settings, trained.backbone, pruned, eval_exits),
            cost=cost_part(pruned, trained.spec.shape),
            metrics=trained.metrics,
            conformal=trained.conformal,
            parity=parity,
            run=identity,
            versions=package_versions(),
            refit=trained.refit,
        )
        write_model(out, content, manifest)
        write_card(out.parent, manifest)
    return manifest


def _identity(trained: TrainedMethod, method: Method) -> RunPart:
    settings = f"{trained.backbone} {trained.settings.model_dump_json()} {trained.spec} {trained.class_names}"
    settings += "".join(f" {name}" for name in trained.target_names)
    weights = save({name: tensor.contiguous() for name, tensor in method.state_dict().items()})
    return RunPart(data=None, config_sha256=sha256_of(settings.encode()), weights_sha256=sha256_of(weights))


def _checked(samples: Samples, form: SampleForm) -> Samples:
    shape = form.spec.shape
    if samples.shape[1:] != shape or not len(samples):
        raise DataError(
            f"the sample must be a batch of at least one, (batch, {', '.join(map(str, shape))}), got {samples.shape}"
        )
    compared: Samples = samples[: 2 * PARITY_SAMPLES].astype(sample_dtype(form))
    if not np.isfinite(compared).all():
        raise DataError("the sample must be finite, got NaN or infinity: remove or impute such values")
    return compared


def _class_names(trained: TrainedMethod) -> tuple[str, ...] | None:
    task, names = trained.spec.task, trained.class_names
    if not isinstance(task, Classification):
        if names is not None:
            raise DataError(f"class_names are for classes, but this network predicts values; got {list(names)}")
        return None
    if names is not None and len(names) != task.num_classes:
        raise DataError(f"class_names must name {task.num_classes} classes, got {len(names)}: {list(names)}")
    found = tuple(map(str, range(task.num_classes) if names is None else names))
    if len(set(found)) < len(found):
        raise DataError(f"class_names must be different, got {list(found)}")
    return found
