"""The latency of a run's exported network at every number of exits, for a search that asks for it."""

from typing import Any

from sae.deploy.eager import shipped_content
from sae.deploy.latency import BATCH, Effort, interleaved, session_maker
from sae.records.run import RunRecord
from sae.training.run import restore, torch_threads

EFFORT = Effort(repeats=15, sessions=3)


def measure_exits(record: RunRecord, effort: Effort = EFFORT) -> dict[str, Any]:
    """Milliseconds for a batch of 64 in onnxruntime on one thread, by K′.

    What counts is the thread's own time: other workers train at the same moment, and whose turn
    it is says nothing of the network.

    Numbers of exits that leave the same inputs at the same exits have graphs that differ in
    weights only: these are exported and measured once.
    """
    with torch_threads(record.config.train.threads):
        method, dataset = restore(record, "cpu")
        used = {max_exits: method.active_counts(max_exits) for max_exits in method.exit_choices}
        different = {active: max_exits for max_exits, active in reversed(used.items())}
        contents = {active: shipped_content(method, dataset, max_exits) for active, max_exits in different.items()}
    makers = {str(active): session_maker(content, BATCH) for active, content in contents.items()}
    timings = interleaved(makers, effort)
    return {
        "batch": BATCH,
        "threads": 1,
        "by_exits": [
            {"exits": max_exits, "latency": timings[str(active)].cpu * 1e3} for max_exits, active in used.items()
        ],
    }
