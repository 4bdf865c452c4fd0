"""A graph in onnxruntime."""

from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from sae.core.errors import ModelError

Array = NDArray[Any]

CHUNK = 256
"""Samples that are computed at once, so that memory does not grow with their number."""
ELEMENT_TYPES = {"tensor(uint8)": "uint8", "tensor(float)": "float32"}


class Session:
    """A graph with one input, whose first dimension is free.

    Args:
        content: The ONNX file.
        threads: That one operation may use.

    Attributes:
        input_name: Of the one input.
        dtype: Of a sample.
        shape: Of a sample.
        outputs: Their names.
        rows: Samples computed so far.
    """

    def __init__(self, content: bytes, threads: int = 1) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3  # errors, which are raised too
        try:
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises its own kinds, none of which share a base
            raise ModelError(f"the file must be an ONNX graph that onnxruntime loads, however: {error}") from None
        taken = self._session.get_inputs()
        if len(taken) != 1 or isinstance(taken[0].shape[0], int):
            raise ModelError(f"the graph must have one input with a free batch size, got {[i.shape for i in taken]}")
        self.input_name, self.shape = taken[0].name, tuple(taken[0].shape[1:])
        self.dtype = ELEMENT_TYPES.get(taken[0].type, taken[0].type)
        self.outputs = tuple(output.name for output in self._session.get_outputs())
        self.rows = 0
        self._widths = [tuple(output.shape[1:]) for output in self._session.get_outputs()]

    def run(self, samples: Array) -> dict[str, Array]:
        """All outputs by name, computed in chunks; of no samples they are empty."""
        if 0 < len(samples) <= CHUNK:
            return dict(zip(self.outputs, self.run_once(samples), strict=True))
        chunks = [self.run_once(samples[start : start + CHUNK]) for start in range(0, len(samples), CHUNK)]
        if not chunks:
            chunks = [[np.zeros((0, *width), np.float32) for width in self._widths]]
        return {
            name: np.concatenate(parts) for name, parts in zip(self.outputs, zip(*chunks, strict=True), strict=True)
        }

    def width(self, output: str) -> int:
        """Numbers for each sample in an output."""
        return int(np.prod(self._widths[self.outputs.index(output)], dtype=int))

    def run_once(self, samples: Array) -> list[Array]:
        """All outputs of one batch, computed at once."""
        self.rows += len(samples)
        return list(self._session.run(None, {self.input_name: samples}))
