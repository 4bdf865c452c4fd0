"""A graph in onnxruntime."""

from collections.abc import Sequence
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


NEVER = 2.0
"""A threshold that no confidence reaches: everyone goes to the last exit."""
SHARE, NEXT = "share", "next_features"
"""What a stage puts out: its members' part of the answer, and what the next stage takes."""
SMALLEST = np.float32(np.finfo(np.float32).tiny)


class Staged:
    """The segments of a network between its used exits, each in its own session.

    Attributes:
        stages: One session for each used exit, shallowest first.
        seen: The weight of all members up to each exit, (stage,); the last is 1.
        threshold: The confidence from which a sample leaves.
        rows: How many rows each stage has computed since the start, (stage,).
    """

    def __init__(self, stages: Sequence[Session], seen: Sequence[float], threshold: float = NEVER) -> None:
        assert len(stages) == len(seen), f"there must be a weight for each stage, got {len(seen)} for {len(stages)}"
        self.stages, self.seen, self.threshold = tuple(stages), np.asarray(seen, np.float32), threshold

    @property
    def rows(self) -> tuple[int, ...]:
        """Counted by the sessions themselves, so that work done in vain counts too."""
        return tuple(stage.rows for stage in self.stages)

    def run(self, samples: Array) -> dict[str, Array]:
        """`probs`, `entropy`, `disagreement` of each sample, and the number of the stage that it left after."""
        chunks = [self._leave(samples[start : start + CHUNK]) for start in range(0, len(samples), CHUNK)]
        width = self.stages[-1].width(SHARE)
        sums, left = (
            [np.concatenate(part) for part in zip(*chunks, strict=True)]
            if chunks
            else (np.zeros((0, width), np.float32), np.zeros(0, np.int64))
        )
        return {**answer(sums / self.seen[left, None]), "stage": left}

    def trace(self, samples: Array) -> Array:
        """The running probabilities after every stage, (stage, sample, class), of samples that never leave."""
        chunks = []
        for start in range(0, len(samples), CHUNK):
            x, shares = samples[start : start + CHUNK], []
            for stage in self.stages:
                outputs = stage.run(x)
                shares.append(outputs[SHARE][:, :-1])
                x = outputs.get(NEXT, x)
            chunks.append(np.cumsum(shares, axis=0) / self.seen[:, None, None])
        traced: Array = np.concatenate(chunks, axis=1)
        return traced

    def _leave(self, x: Array) -> tuple[Array, Array]:
        """Sums over members (row, class + 1) and the stage after which each row left, (row,)."""
        here, carried = np.arange(len(x)), np.zeros((len(x), self.stages[-1].width(SHARE)), np.float32)
        sums, left = np.empty_like(carried), np.empty(len(x), np.int64)
        for number, stage in enumerate(self.stages):
            outputs = stage.run(x)
            carried = carried + outputs[SHARE]
            if number == len(self.stages) - 1:
                sums[here], left[here] = carried, number
                break
            leaves = confidence(carried[:, :-1] / self.seen[number]) >= self.threshold
            x = outputs[NEXT]
            if leaves.any():
                sums[here[leaves]], left[here[leaves]] = carried[leaves], number
                stays = np.flatnonzero(~leaves)
                if not len(stays):
                    break
                here, carried, x = here[stays], carried[stays], x[stays]
        return sums, left


def confidence(probs: Array) -> Array:
    """The top probability, (…,) of (…, class); never above 1, whatever rounding did."""
    highest: Array = np.minimum(probs.max(axis=-1, initial=0.0), 1.0)
    return highest


def answer(average: Array) -> dict[str, Array]:
    """What the plain graph puts out, from averages over members (row, class + 1).

    The last column is the mean entropy of the members, which the entropy of their mixture
    exceeds by their disagreement.
    """
    probs, mean_entropy = average[:, :-1], average[:, -1]
    entropy = -(probs * np.log(np.maximum(probs, SMALLEST))).sum(axis=1)
    return {"probs": probs, "entropy": entropy, "disagreement": np.maximum(entropy - mean_entropy, 0.0)}
