"""Adaptive exits: a sample leaves at the first exit that is confident enough, and the rest of its batch goes on.

After each used exit the running prediction is the average of the member probabilities seen so
far, weighted by θ* and divided by the weight seen so far; its top probability is the confidence.
A sample leaves once that is at least the threshold, at the last exit in any case. Rows that stay
are compacted: later stages never see those that left. Numpy and onnxruntime, no torch.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sae.deploy.session import CHUNK, Session

Array = NDArray[Any]

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
