"""The parts of a manifest that describe the network, its cost and its input."""

import platform
from collections.abc import Sequence
from importlib.metadata import version

from sae.backbones import MemberNetwork
from sae.config.methods import MethodSettings
from sae.config.run import Fit
from sae.core.task import Counts, Shape, Task, num_targets
from sae.core.version import __version__
from sae.data.dataset import ColumnEncoding
from sae.deploy.graph import SampleForm, sample_dtype
from sae.deploy.manifest import ColumnPart, CostPart, InputPart, MemberPart, NetworkPart, TargetPart
from sae.deploy.session import Session
from sae.measure.cost import measure_cost, measure_shipped_cost
from sae.methods import Method


def input_part(
    session: Session, form: SampleForm, fit: Fit | None = None, columns: Sequence[ColumnEncoding] | None = None
) -> InputPart:
    """Describe the input of a graph.

    Args:
        session: The graph in onnxruntime.
        form: The form of its samples.
        fit: How images of other sizes are resized before the graph.
        columns: How the columns of a table become features.
    """
    return InputPart(
        name=session.input_name,
        dtype=sample_dtype(form),
        shape=session.shape,
        frame=form.frame,
        depth=form.depth,
        fit=fit,
        mean=form.normalisation.mean,
        std=form.normalisation.std,
        each_image=form.normalisation.each_image,
        columns=None
        if columns is None
        else tuple(ColumnPart.model_validate(column, from_attributes=True) for column in columns),
    )


def network_part(
    method: Method, settings: MethodSettings, backbone: str, pruned: MemberNetwork, eval_exits: int
) -> NetworkPart:
    """Describe a network and its members.

    Args:
        method: The trained method.
        settings: Its settings.
        backbone: The name of its backbone.
        pruned: Its network at K′ exits.
        eval_exits: K′.
    """
    members = zip(pruned.weights.tolist(), pruned.member_places(method.depth), strict=True)
    return NetworkPart(
        method=settings.name,
        backbone=backbone,
        num_inputs=settings.num_inputs,
        depth=method.depth,
        max_exits=method.exits,
        eval_exits=eval_exits,
        active=method.active_counts(eval_exits),
        members=tuple(MemberPart(weight=weight, input=i, exit=j) for weight, (i, j) in members),
    )


def cost_part(pruned: MemberNetwork, shape: Shape) -> CostPart:
    """Count the cost of a pruned network, and of the same network as shipped, for a sample of this shape."""
    cost, shipped = measure_cost(pruned, shape), measure_shipped_cost(pruned, shape)
    return CostPart(params=cost.params, flops=cost.flops, shipped_params=shipped.params, shipped_flops=shipped.flops)


def target_part(
    task: Task,
    class_names: Sequence[str] | None,
    names: Sequence[str] = (),
    column: str | None = None,
    label_scale: float = 1.0,
) -> TargetPart:
    """Describe what a model predicts.

    Args:
        task: The task.
        class_names: Names of the classes, one of which is right.
        names: Names of several targets; by default their numbers from 1.
        column: The column of a table that holds the truth.
        label_scale: The divisor of real-valued labels in a file.
    """
    several = num_targets(task)
    numbered = tuple(str(number + 1) for number in range(several or 0))
    return TargetPart(
        class_names=tuple(class_names) if class_names and several is None else None,
        column=column,
        label_scale=label_scale,
        names=None if several is None else tuple(names) or numbered,
        smallest=0.0 if isinstance(task, Counts) else None,
    )


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that an exported graph depends on."""
    packages = ("torch", "onnx", "onnxscript", "onnxruntime")
    return {"sae": __version__, **{name: version(name) for name in packages}, "python": platform.python_version()}
