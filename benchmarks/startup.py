"""CPU seconds of commands beyond the import of torch, from the start of their process.

    python -m benchmarks.startup --rounds 5

Every command is a process of its own, on one thread. Commands and the control take turns, and medians are compared:
on a busy machine CPU time grows, too, and the control shows by how much.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SAE = "from sae.cli import main; main()"
DIGITS = (
    "from sae.config.run import DataConfig; from sae.data.embedded import read_digits; "
    "read_digits(DataConfig(name='digits'), 0)"
)
CONTROL = "`import torch`, the control"
COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    CONTROL: ("import torch", ()),
    "`import torch, sklearn.linear_model`": ("import torch, sklearn.linear_model", ()),
    "`import torch`, then read and split the digits": (f"import torch; {DIGITS}", ()),
    "`sae train`: digits, fc, one epoch": (SAE, ("train", "--data", "digits", "--backbone", "fc", "--epochs", "1")),
    "`sae --help`": (SAE, ("--help",)),
}


def cpu_seconds(code: str, arguments: tuple[str, ...], folder: Path) -> float:
    """Return the CPU time of one process; a training leaves its run in this folder."""
    out = ("--out", str(folder)) if arguments[:1] == ("train",) else ()
    command = [sys.executable, "-c", code, *arguments, *out]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}  # pip compiles on installing
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(rounds: int) -> dict[str, list[float]]:
    """Measure all commands, one after the other, in every round."""
    found: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, (code, arguments) in COMMANDS.items():
            with tempfile.TemporaryDirectory() as folder:
                found[name].append(cpu_seconds(code, arguments, Path(folder) / "run"))
    return found


def table(found: dict[str, list[float]]) -> str:
    """Return a Markdown table: the median over rounds, and its excess over the control."""
    control = statistics.median(found[CONTROL])
    lines = ["| command | CPU seconds, median | beyond importing torch |", "|---|---|---|"]
    for name, seconds in found.items():
        median = statistics.median(seconds)
        beyond = f"{median - control:.1f}" if median > control else ""
        lines.append(f"| {name} | {median:.1f} | {beyond} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    print(table(measure(parser.parse_args().rounds)))


if __name__ == "__main__":
    main()
