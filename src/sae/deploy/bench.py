"""Models side by side: time, throughput, memory and size. Of graphs alone it works without torch."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sae.core.errors import ConfigError, ModelError
from sae.deploy.latency import CONTROL, Call, Effort, Timing, interleaved, session_maker
from sae.deploy.manifest import NAME, read_manifest
from sae.deploy.peak_memory import peak_memory
from sae.records.run import RunRecord

ONNXRUNTIME, TORCH = "onnxruntime", "torch"


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
    from sae.deploy.eager import eager_maker, open_run
    from sae.deploy.eager_file import write_eager
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
