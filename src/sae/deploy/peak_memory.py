"""Peak memory of a model, in a process of its own: `python -m sae.deploy.peak_memory onnx|torch FILE BATCH THREADS`.

The process starts its runtime, notes its peak, then loads the model's weights and computes one batch. What the
peak grew by is the model's: weights, activations and the runtime's workspace. On Linux the peak is read from
`/proc/self/status`, because `getrusage` starts at the peak of the process that started it.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from sae.core.errors import ModelError

STATUS = Path("/proc/self/status")


def peak_memory(kind: str, path: Path, batch: int, threads: int = 1) -> int:
    """Bytes that a model adds to the peak of a process that predicts with it.

    Args:
        kind: `onnx`, or `torch` for what `write_eager` wrote.
        path: The file.
        batch: Samples in the one batch.
        threads: That one operation may use.
    """
    command = [sys.executable, "-m", "sae.deploy.peak_memory", kind, str(path), str(batch), str(threads)]
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

    from sae.deploy.eager import eager_call
    from sae.deploy.eager_file import load_weights, read_eager

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
