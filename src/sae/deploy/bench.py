"""Models side by side: time, throughput, memory and size. Of graphs alone it works without torch."""

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sae.core.errors import ConfigError, ModelError
from sae.deploy.latency import BATCH, CONTROL, Call, Effort, Timing, interleaved, session_maker
from sae.deploy.manifest import NAME, read_manifest
from sae.records.run import RunRecord

ONNXRUNTIME, TORCH = "onnxruntime", "torch"
EFFORT = Effort(repeats=15, sessions=3)
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Entry:
    """Something to measure.

    Attributes:
        label: As it is shown; different for each.
        model: The file or folder it comes from.
        runtime: What computes it.
        make: From a batch size to what makes it ready.
        file: What a process of its own loads, to see how much memory that takes.
        bytes: Size of its file, where it has one.
    """

    label: str
    model: str
    runtime: str
    make: Callable[[int], Callable[[], Call]]
    file: Path
    bytes: int | None


def bench(
    targets: Sequence[Path], batches: Sequence[int], *, effort: Effort, threads: int = 1, eval_exits: int | None = None
) -> dict[str, Any]:
    """Measure models; ratios are to the first, which is measured twice so that noise shows.

    Args:
        targets: Run folders, or exported models.
        batches: Batch sizes.
        effort: How much is measured.
        threads: That one operation may use.
        eval_exits: K′ of the runs; by default the trained K.
    """
    if min(batches) < 1 or len(set(batches)) < len(batches):
        raise ConfigError(f"--batch takes different sizes of at least 1, got {','.join(map(str, batches))}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        entries = [
            entry
            for number, target in enumerate(targets)
            for entry in _entries(target, number, folder, threads, eval_exits, stack)
        ]
        labels = _labels(entries)
        results = [_measure(dict(zip(labels, entries, strict=True)), batch, effort, threads) for batch in batches]
    return {
        "first": labels[0],
        "threads": threads,
        "repeats": effort.repeats,
        "sessions": effort.sessions,
        "seed": effort.seed,
        "models": [
            {"label": label, "model": entry.model, "runtime": entry.runtime, "bytes": entry.bytes}
            for label, entry in zip(labels, entries, strict=True)
        ],
        "batches": results,
    }


def _measure(entries: dict[str, Entry], batch: int, effort: Effort, threads: int) -> dict[str, Any]:
    makers = {label: entry.make(batch) for label, entry in entries.items()}
    first = next(iter(makers))
    timings = interleaved({**makers, CONTROL: makers[first]}, effort)
    rows = []
    for label, entry in entries.items():
        kind = "torch" if entry.runtime == TORCH else "onnx"
        peak = peak_memory(kind, entry.file, batch, threads)
        rows.append({"label": label, **_row(timings[label], timings[first], batch), "peak_bytes": peak})
    noise = timings[CONTROL].seconds / timings[first].seconds
    return {"batch": batch, "noise": noise, "rows": rows, CONTROL: _row(timings[CONTROL], timings[first], batch)}


def _row(timing: Timing, first: Timing, batch: int) -> dict[str, float]:
    return {
        "ms": timing.seconds * 1e3,
        "cpu_ms": timing.cpu * 1e3,
        "ms_low": timing.low * 1e3,
        "ms_high": timing.high * 1e3,
        "ms_per_sample": timing.seconds * 1e3 / batch,
        "samples_per_second": batch / timing.seconds,
        "ratio": timing.seconds / first.seconds,
    }


def _entries(
    target: Path, number: int, folder: Path, threads: int, eval_exits: int | None, stack: ExitStack
) -> list[Entry]:
    if (target / RunRecord.CONFIG).exists():
        return _run_entries(target, number, folder, threads, eval_exits, stack)
    if eval_exits is not None:
        raise ConfigError(f"--eval-exits is for run folders, however {target} is none: its number of exits is fixed")
    path = target / read_manifest(target / NAME).graph.file if target.is_dir() else target
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(
            f"what is measured must be a run folder or an .onnx file, got {target}: {error.strerror}"
        ) from None
    return [_graph_entry(target, content, path, threads)]


def _run_entries(
    run: Path, number: int, folder: Path, threads: int, eval_exits: int | None, stack: ExitStack
) -> list[Entry]:
    """The graph first, for ratios are to the first."""
    from sae.deploy.eager import eager_maker, open_run, write_eager
    from sae.training.run import torch_threads

    model, content = open_run(run, eval_exits)
    stack.enter_context(torch_threads(threads))
    files = [folder / f"{number}.{suffix}" for suffix in ("onnx", "safetensors")]
    files[0].write_bytes(content)
    write_eager(files[1], run, model)
    eager = Entry(f"{run.name} (torch)", str(run), TORCH, lambda batch: eager_maker(model, batch), files[1], None)
    return [_graph_entry(run, content, files[0], threads), eager]


def _graph_entry(model: Path, content: bytes, file: Path, threads: int) -> Entry:
    name = model.resolve().parent.name + "/" + model.name if model.suffix == ".onnx" else model.name
    return Entry(
        name, str(model), ONNXRUNTIME, lambda batch: session_maker(content, batch, threads), file, len(content)
    )


def _labels(entries: Sequence[Entry]) -> list[str]:
    """As short as they may be and still different."""
    labels = [entry.label for entry in entries]
    doubled = {label for label in labels if labels.count(label) > 1 or label == CONTROL}
    return [f"{number}: {label}" if label in doubled else label for number, label in enumerate(labels, start=1)]


def measure_exits(record: RunRecord, effort: Effort = EFFORT) -> dict[str, Any]:
    """Milliseconds for a batch of 64 in onnxruntime on one thread, by K′.

    What counts is the thread's own time: other workers train at the same moment, and whose turn
    it is says nothing of the network.

    Numbers of exits that leave the same inputs at the same exits have graphs that differ in
    weights only: these are exported and measured once.
    """
    from sae.deploy.graph import shipped_content
    from sae.training.run import restore, torch_threads

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


def peak_memory(kind: str, path: Path, batch: int, threads: int = 1) -> int:
    """Bytes that a model adds to the peak of a process that predicts with it.

    Args:
        kind: `onnx`, or `torch` for what `write_eager` wrote.
        path: The file.
        batch: Samples in the one batch.
        threads: That one operation may use.
    """
    command = [sys.executable, "-m", "sae.deploy.bench", kind, str(path), str(batch), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ModelError(f"a process must be able to load {path} and compute {batch} samples, however: {reason}")
    return int(json.loads(done.stdout)["bytes"])


def own_peak() -> int:
    """The most memory that this process has had, in bytes."""
    if STATUS.exists():
        lines = STATUS.read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _use_onnx(path: Path, batch: int, threads: int) -> Callable[[], object]:
    from sae.deploy.latency import session_maker

    return lambda: session_maker(path.read_bytes(), batch, threads)()()


def _use_torch(path: Path, batch: int, threads: int) -> Callable[[], object]:
    import torch

    from sae.deploy.eager import eager_call, load_weights, read_eager

    torch.set_num_threads(threads)
    torch.zeros(1).sum()
    model = read_eager(path)

    def use() -> object:
        load_weights(model, path)
        return eager_call(model, batch)()

    return use


def main() -> None:
    """Print the growth of the peak as JSON."""
    kind, path, batch, threads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    use = (_use_torch if kind == "torch" else _use_onnx)(path, batch, threads)
    before = own_peak()
    use()
    sys.stdout.write(json.dumps({"bytes": own_peak() - before}) + "\n")


if __name__ == "__main__":
    main()
