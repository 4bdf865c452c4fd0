"""Graphs in onnxruntime: one whole graph, or the segments of a network with adaptive exits. No torch.

With adaptive exits a sample leaves at the first exit that is confident enough. After each used
exit the running prediction is the average of the member probabilities so far, weighted by θ* and
divided by the total weight so far. Its top probability is the confidence. A sample leaves as soon
as its confidence reaches the threshold, and at the last exit in any case. Only the remaining rows
of a batch continue in the next segment.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Timer

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from sae.core.errors import ModelError, PredictionError

Samples = NDArray[np.number]
Floats = NDArray[np.float32]
Output = NDArray[np.floating]
"""An output: float32, or float64 where it is in the units of the data."""
Integers = NDArray[np.int64]

CHUNK = 256
"""Samples computed at once, so that memory does not grow with the number of samples."""
ELEMENT_TYPES = {"tensor(uint8)": "uint8", "tensor(float)": "float32", "tensor(double)": "float64"}
NEVER = 2.0
"""A threshold that no confidence reaches: every sample goes to the last exit."""
SHARE, NEXT = "share", "next_features"
"""Outputs of a segment: its members' part of the prediction, and the input of the next segment."""
MEMBERS = "members"
"""The output of a plain graph that is computed only if asked for; older graphs do not have it."""
SMALLEST = np.float32(np.finfo(np.float32).tiny)


class Session:
    """A graph with one input and a free batch size.

    Args:
        content: The ONNX file.
        threads: Threads that one operation may use.

    Attributes:
        input_name: Name of the input.
        dtype: Element type of a sample.
        shape: Shape of a sample.
        outputs: Names of the outputs.
        rows: Number of samples computed so far.
        limit: Stops the graph once its `terminate` is set; see `limited`.
    """

    def __init__(self, content: bytes, threads: int = 1) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 4  # errors are raised
        try:
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the exceptions of onnxruntime share no base class
            raise ModelError(f"the file must be an ONNX graph that onnxruntime can load: {error}") from None
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if len(inputs) != 1 or not inputs[0].shape or isinstance(inputs[0].shape[0], int):
            raise ModelError(f"the graph must have one input with a free batch size, got {[i.shape for i in inputs]}")
        odd = next((output for output in outputs if output.type not in ELEMENT_TYPES or not output.shape), None)
        if odd is not None:
            raise ModelError(
                f"the outputs of the graph must be numbers for each sample, but {odd.name} is {odd.type} of shape "
                f"{odd.shape}"
            )
        self.input_name, self.shape = str(inputs[0].name), tuple(inputs[0].shape[1:])
        self.dtype: str = ELEMENT_TYPES.get(inputs[0].type, inputs[0].type)
        self.outputs = tuple(str(output.name) for output in outputs)
        self.rows = 0
        self.limit: onnxruntime.RunOptions | None = None
        self._widths = [tuple(output.shape[1:]) for output in outputs]
        self._dtypes = [ELEMENT_TYPES[output.type] for output in outputs]

    def run(self, samples: Samples, *, members: bool = False) -> dict[str, Output]:
        """Return the outputs by name, computed in chunks. Without samples they are empty.

        Args:
            samples: (sample, *shape).
            members: Also return the predictions of every member, which are large, if the graph has them.
        """
        names = [name for name in self.outputs if members or name != MEMBERS]
        if 0 < len(samples) <= CHUNK:
            return dict(zip(names, self.run_once(samples, names), strict=True))
        chunks = [self.run_once(samples[start : start + CHUNK], names) for start in range(0, len(samples), CHUNK)]
        if not chunks:
            kinds = dict(zip(self.outputs, zip(self._widths, self._dtypes, strict=True), strict=True))
            chunks = [[np.zeros((0, *kinds[name][0]), kinds[name][1]) for name in names]]
        return {name: np.concatenate(parts) for name, parts in zip(names, zip(*chunks, strict=True), strict=True)}

    def width(self, output: str) -> int:
        """Return how many numbers an output has per sample."""
        sizes = self._widths[self.outputs.index(output)]
        if not all(isinstance(size, int) for size in sizes):
            raise ModelError(f"the graph must say how many numbers {output} has per sample, got {sizes}")
        return int(np.prod(sizes, dtype=int))

    def run_once(self, samples: Samples, names: Sequence[str] | None = None) -> list[Output]:
        """Return outputs of one batch, computed at once; by default all but the members."""
        self.rows += len(samples)
        asked = [name for name in self.outputs if name != MEMBERS] if names is None else list(names)
        try:
            found = list(self._session.run(asked, {self.input_name: samples}, self.limit))
        except Exception as error:  # the exceptions of onnxruntime share no base class
            raise ModelError(
                f"the graph must predict {len(samples)} samples, but onnxruntime stopped: {error}"
            ) from None
        wrong = next((name for name, output in zip(asked, found, strict=True) if len(output) != len(samples)), None)
        if wrong is not None:
            raise ModelError(f"the graph must return a row for each sample, but {wrong} has others")
        return found


class SegmentSessions:
    """The segments of a network between its used exits, each in its own session.

    Attributes:
        segments: One session per used exit, shallowest first.
        seen: Total weight of the members up to each exit, (segment,). The last one is 1.
        threshold: The confidence from which a sample leaves.
        rows: Number of rows each segment has computed so far, (segment,).
    """

    def __init__(self, segments: Sequence[Session], seen: Sequence[float], threshold: float = NEVER) -> None:
        assert len(segments) == len(seen), f"each segment needs a weight, got {len(seen)} for {len(segments)} segments"
        self.segments, self.threshold = tuple(segments), threshold
        self.seen: Floats = np.asarray(seen, np.float32)

    @property
    def rows(self) -> tuple[int, ...]:
        """Number of rows that each segment has computed so far, including wasted work, (segment,)."""
        return tuple(segment.rows for segment in self.segments)

    def run(self, samples: Samples) -> tuple[dict[str, Floats], Integers]:
        """Return the outputs of the plain graph, and the index of the segment after which each sample left."""
        chunks = [self._run_chunk(samples[start : start + CHUNK]) for start in range(0, len(samples), CHUNK)]
        if not chunks:
            width = self.segments[-1].width(SHARE)
            chunks = [(np.zeros((0, width), np.float32), np.zeros(0, np.int64))]
        sums = np.concatenate([chunk[0] for chunk in chunks])
        left = np.concatenate([chunk[1] for chunk in chunks])
        averages: Floats = np.divide(sums, self.seen[left, None])
        return summarise(averages), left

    def trace(self, samples: Samples) -> Floats:
        """Return the running probabilities after every segment, (segment, sample, class); no sample leaves."""
        chunks = []
        for start in range(0, len(samples), CHUNK):
            x, shares = samples[start : start + CHUNK], []
            for segment in self.segments:
                outputs = segment.run(x)
                shares.append(outputs[SHARE][:, :-1])
                x = outputs.get(NEXT, x)
            chunks.append(np.cumsum(shares, axis=0) / self.seen[:, None, None])
        return np.concatenate(chunks, axis=1)

    def _run_chunk(self, x: Samples) -> tuple[Floats, Integers]:
        """Return sums over members, (row, class + 1), and the segment after which each row left, (row,)."""
        here, carried = np.arange(len(x)), np.zeros((len(x), self.segments[-1].width(SHARE)), np.float32)
        sums, left = np.empty_like(carried), np.empty(len(x), np.int64)
        for number, segment in enumerate(self.segments):
            outputs = segment.run(x)
            carried = carried + outputs[SHARE].astype(np.float32, copy=False)
            if number == len(self.segments) - 1:
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


@contextmanager
def limited(sessions: Sequence[Session], seconds: float | None) -> Iterator[None]:
    """Stop the graphs of sessions if they are not done after some seconds; a graph of a stranger may never end."""
    options = onnxruntime.RunOptions()
    options.log_severity_level = 4
    timer = None if seconds is None else Timer(seconds, setattr, (options, "terminate", True))
    if timer is not None:
        timer.daemon = True
        timer.start()
    for session in sessions:
        session.limit = options
    try:
        yield
    except ModelError:
        if options.terminate:
            raise PredictionError(
                f"the model must predict within {seconds:g} s, but was still at work: allow more with --timeout, or "
                f"predict fewer samples"
            ) from None
        raise
    finally:
        if timer is not None:
            timer.cancel()
        for session in sessions:
            session.limit = None


def open_segments(contents: Sequence[bytes], seen: Sequence[float], threads: int = 1) -> SegmentSessions:
    """Load the files of segments in onnxruntime. No sample leaves early until a threshold is set."""
    return SegmentSessions([Session(content, threads) for content in contents], seen)


def confidence(probs: Floats) -> Floats:
    """Return the top probability, (…, class) → (…,), at most 1 despite rounding."""
    highest: Floats = np.minimum(probs.max(axis=-1, initial=0.0), np.float32(1.0))
    return highest


def summarise(average: Floats) -> dict[str, Floats]:
    """Return the outputs of the plain graph from averages over members, (row, class + 1).

    The last column is the mean entropy of the members. The entropy of their mixture minus this
    mean is their disagreement.
    """
    probs, mean_entropy = average[:, :-1], average[:, -1]
    entropy = -(probs * np.log(np.maximum(probs, SMALLEST))).sum(axis=1)
    return {"probs": probs, "entropy": entropy, "disagreement": np.maximum(entropy - mean_entropy, 0.0)}
