"""Models side by side: time, throughput, memory and size. Exported models alone need no torch.

`python -m sae.deploy.bench onnx|torch FILE BATCH THREADS [trusts-code]` measures peak memory in a process of its
own. The process starts its runtime, notes its peak, then loads the model's weights and computes one
batch. The growth of the peak is the model's: weights, activations and the runtime's workspace. On
Linux the peak is read from `/proc/self/status`, because `getrusage` starts at the parent's peak.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sae.core.collection import import_for_good
from sae.core.errors import ConfigError, ModelError
from sae.core.reading import read_file
from sae.core.trust import is_code_trusted, trust_code
from sae.data.binding import AS_BEFORE, Whereabouts
from sae.deploy.latency import BATCH, CONTROL, Effort, Maker, Timing, interleaved, session_maker
from sae.deploy.manifest import NAME, read_manifest
from sae.records.evaluation import Latency, LatencyReading
from sae.records.run import RunRecord

ONNXRUNTIME, TORCH = "onnxruntime", "torch"
EXITS_EFFORT = Effort(repeats=15, sessions=3)
STATUS = Path("/proc/self/status")
TRUSTS_CODE = "trusts-code"
"""The argument that allows the other process to import code that the run names."""


@dataclass(frozen=True)
class Entry:
    """A model to measure.

    Attributes:
        label: Its name in the table; unique.
        model: The file or folder it comes from.
        runtime: The runtime that computes it.
        make: Returns the function that loads it, for a batch size.
        file: The file that another process loads to measure memory.
        bytes: Size of its file, if it has one.
    """

    label: str
    model: str
    runtime: str
    make: Callable[[int], Maker]
    file: Path
    bytes: int | None


@dataclass(frozen=True)
class BenchModel:
    """A measured model: its label, its file or folder, its runtime, and the size of its file."""

    label: str
    model: str
    runtime: str
    bytes: int | None


@dataclass(frozen=True)
class BenchTimes:
    """Times of one model for one batch size.

    Attributes:
        ms: Median milliseconds of wall time for a batch.
        cpu_ms: Median milliseconds of the calling thread's CPU time.
        ms_low: Smallest median of a session.
        ms_high: Largest median of a session.
        ms_per_sample: Milliseconds for a sample.
        samples_per_second: Throughput.
        ratio: Time relative to the first model.
    """

    ms: float
    cpu_ms: float
    ms_low: float
    ms_high: float
    ms_per_sample: float
    samples_per_second: float
    ratio: float


@dataclass(frozen=True)
class BenchRow:
    """Times and peak memory of one model for one batch size."""

    label: str
    times: BenchTimes
    peak_bytes: int

    def to_json(self) -> dict[str, object]:
        """Return a flat JSON object."""
        return {"label": self.label, **asdict(self.times), "peak_bytes": self.peak_bytes}


@dataclass(frozen=True)
class BenchBatch:
    """All models for one batch size.

    Attributes:
        batch: Samples in a batch.
        noise: Time of the first model when measured again, relative to itself.
        rows: One for each model.
        control: The first model again.
    """

    batch: int
    noise: float
    rows: tuple[BenchRow, ...]
    control: BenchTimes

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        rows = [row.to_json() for row in self.rows]
        return {"batch": self.batch, "noise": self.noise, "rows": rows, "control": asdict(self.control)}


@dataclass(frozen=True)
class Bench:
    """Results of measuring models side by side.

    Attributes:
        first: Label of the model that ratios are relative to.
        threads: Threads that one operation may use.
        effort: How much was measured.
        models: The models.
        batches: Results for each batch size.
    """

    first: str
    threads: int
    effort: Effort
    models: tuple[BenchModel, ...]
    batches: tuple[BenchBatch, ...]

    def to_json(self) -> dict[str, object]:
        """Return a JSON object."""
        return {
            "first": self.first,
            "threads": self.threads,
            "repeats": self.effort.repeats,
            "sessions": self.effort.sessions,
            "seed": self.effort.seed,
            "models": [asdict(model) for model in self.models],
            "batches": [batch.to_json() for batch in self.batches],
        }


def bench(
    targets: Sequence[Path],
    batches: Sequence[int],
    *,
    effort: Effort,
    threads: int = 1,
    eval_exits: int | None = None,
    where: Whereabouts = AS_BEFORE,
) -> Bench:
    """Measure models side by side. The first is measured twice, to show the noise.

    Args:
        targets: Run folders, or exported models.
        batches: Batch sizes.
        effort: How much is measured.
        threads: Threads that one operation may use.
        eval_exits: K′ of the runs; by default the best on validation.
        where: Where the data of the runs are today; the networks are built for these data.
    """
    if where != AS_BEFORE and not any(map(_is_run, targets)):
        raise ConfigError("--data and --allow-other-data are for run folders, got exported models only: drop them")
    if min(batches) < 1 or len(set(batches)) < len(batches):
        raise ConfigError(f"--batch must list different sizes of at least 1, got {','.join(map(str, batches))}")
    if any(map(_is_run, targets)):
        import_for_good("torch")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        found = [
            entry
            for number, target in enumerate(targets)
            for entry in (
                _run_entries(target, folder / str(number), threads, eval_exits, where, stack)
                if _is_run(target)
                else [_exported_entry(target, threads, eval_exits)]
            )
        ]
        entries = dict(zip(_labels(found), found, strict=True))
        results = tuple(_measure(entries, batch, effort, threads) for batch in batches)
    models = tuple(BenchModel(label, entry.model, entry.runtime, entry.bytes) for label, entry in entries.items())
    return Bench(models[0].label, threads, effort, models, results)


def _measure(entries: Mapping[str, Entry], batch: int, effort: Effort, threads: int) -> BenchBatch:
    makers = {label: entry.make(batch) for label, entry in entries.items()}
    first = next(iter(makers))
    timings = interleaved({**makers, CONTROL: makers[first]}, effort)
    times = {label: _times(timing, timings[first], batch) for label, timing in timings.items()}
    rows = []
    for label, entry in entries.items():
        kind = "torch" if entry.runtime == TORCH else "onnx"
        rows.append(BenchRow(label, times[label], peak_memory(kind, entry.file, batch, threads)))
    return BenchBatch(batch, times[CONTROL].ratio, tuple(rows), times[CONTROL])


def _times(timing: Timing, first: Timing, batch: int) -> BenchTimes:
    return BenchTimes(
        ms=timing.seconds * 1e3,
        cpu_ms=timing.cpu * 1e3,
        ms_low=timing.low * 1e3,
        ms_high=timing.high * 1e3,
        ms_per_sample=timing.seconds * 1e3 / batch,
        samples_per_second=batch / timing.seconds,
        ratio=timing.seconds / first.seconds,
    )


def _is_run(target: Path) -> bool:
    return (target / RunRecord.CONFIG).exists()


def _exported_entry(target: Path, threads: int, eval_exits: int | None) -> Entry:
    if eval_exits is not None:
        raise ConfigError(f"--eval-exits is for run folders, but {target} is an exported model with a fixed number")
    path = target / read_manifest(target / NAME).graph.file if target.is_dir() else target
    try:
        content = read_file(str(path))
    except OSError as error:
        raise ModelError(f"a model must be a run folder or an .onnx file, got {target}: {error.strerror}") from None
    return _graph_entry(target, content, path, threads)


def _run_entries(
    run: Path, stem: Path, threads: int, eval_exits: int | None, where: Whereabouts, stack: ExitStack
) -> list[Entry]:
    """Return the graph of a run and its network in torch, in this order, because ratios are relative to the first."""
    from sae.deploy.eager import eager_maker, open_run, write_eager
    from sae.training.trainer import torch_threads

    model, content = open_run(run, eval_exits, where)
    stack.enter_context(torch_threads(threads))
    files = [stem.with_suffix(suffix) for suffix in (".onnx", ".safetensors")]
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
    """Return the labels of the entries, with a number in front where they would not be unique."""
    labels = [entry.label for entry in entries]
    doubled = {label for label in labels if labels.count(label) > 1 or label == CONTROL}
    return [f"{number}: {label}" if label in doubled else label for number, label in enumerate(labels, start=1)]


def measure_exits(record: RunRecord, effort: Effort = EXITS_EFFORT) -> Latency:
    """Measure milliseconds for a batch of 64 in onnxruntime on one thread, at every K′.

    It is CPU time of the thread: other workers train at the same time, and waiting for them says nothing
    about the network.

    Several K′ may leave the same inputs at the same exits. Their graphs differ only in weights, so
    one of them is exported and measured for all.
    """
    from sae.deploy.graph import shipped_content
    from sae.training.run import restore
    from sae.training.trainer import torch_threads

    with torch_threads(record.read_config().train.threads):
        method, dataset = restore(record, "cpu")
        used = {eval_exits: method.active_counts(eval_exits) for eval_exits in method.exit_choices}
        different = {active: eval_exits for eval_exits, active in reversed(used.items())}
        contents = {active: shipped_content(method, dataset, eval_exits) for active, eval_exits in different.items()}
    makers = {str(active): session_maker(content, BATCH) for active, content in contents.items()}
    timings = interleaved(makers, effort)
    readings = (
        LatencyReading(eval_exits=eval_exits, latency=timings[str(active)].cpu * 1e3)
        for eval_exits, active in used.items()
    )
    return Latency(batch=BATCH, threads=1, readings=tuple(readings))


def peak_memory(kind: str, path: Path, batch: int, threads: int = 1) -> int:
    """Return the bytes that a model adds to the peak memory of a process that predicts with it.

    Args:
        kind: `onnx`, or `torch` for a file of `write_eager`.
        path: The file.
        batch: Samples in the one batch.
        threads: Threads that one operation may use.
    """
    command = [sys.executable, "-m", "sae.deploy.bench", kind, str(path), str(batch), str(threads)]
    command += [TRUSTS_CODE] * is_code_trusted()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ModelError(f"another process must be able to load {path} and compute {batch} samples: {reason}")
    return int(json.loads(done.stdout)["bytes"])


def own_peak() -> int:
    """Return the peak memory of this process in bytes."""
    if STATUS.exists():
        lines = STATUS.read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _use_onnx(path: Path, batch: int, threads: int) -> Callable[[], object]:
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
    """Print the growth of the peak memory as JSON."""
    kind, path, batch, threads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    trust_code(is_trusted=TRUSTS_CODE in sys.argv[5:])
    use = (_use_torch if kind == "torch" else _use_onnx)(path, batch, threads)
    before = own_peak()
    use()
    sys.stdout.write(json.dumps({"bytes": own_peak() - before}) + "\n")


if __name__ == "__main__":
    main()
