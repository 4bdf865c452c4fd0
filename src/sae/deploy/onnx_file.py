"""A torch module as the bytes of an ONNX file, without the exporter's noise and traces of the machine."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

MARK = "shipped_"
"""In front of an output's name while it might clash with another."""


def to_onnx(module: nn.Module, example: Tensor, input_name: str, output_names: Sequence[str]) -> bytes:
    """One self-contained file whose batch size is free.

    BatchNorm right behind a Linear or convolution goes into that layer: the exporter does it.

    Args:
        module: In evaluation mode; takes `example`.
        example: (2, *sample): a batch of one would be taken for a constant.
        input_name: What the input is called.
        output_names: What the outputs are called.
    """
    with torch.no_grad(), quiet():
        program = torch.onnx.export(
            module,
            (example,),
            dynamo=True,
            dynamic_shapes=({0: "batch"},),
            input_names=[input_name],
            output_names=[MARK + name for name in output_names],
            external_data=False,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    model.producer_name = "sae"
    graph = model.graph
    graph.ClearField("value_info")
    _name_outputs(graph, output_names)
    for described in (model, graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        described.ClearField("doc_string")
        described.ClearField("metadata_props")  # where in whose source it came from
    content: bytes = model.SerializeToString()
    return content


def _name_outputs(graph: Any, names: Sequence[str]) -> None:
    """Call the outputs what they are; the exporter itself lets them clash with values of the same name inside.

    A token mean, for one, is called `mean`.
    """
    renamed = {name: f"inner_{name}" for name in names} | {MARK + name: name for name in names}
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    for value in (*graph.initializer, *graph.output):
        value.name = renamed.get(value.name, value.name)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Neither warnings, nor log lines, nor prints of exporters; what they raise is raised."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            with contextlib.redirect_stderr(io.StringIO()):
                yield
    finally:
        logging.disable(before)
