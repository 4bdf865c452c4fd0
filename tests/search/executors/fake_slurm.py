"""A SLURM cluster of separate processes on this machine, with commands that are late and contradict each other.

`install` puts `sbatch`, `squeue`, `scancel` and `sacct` into a folder. They keep what they know in files:

- `tasks/4_0`: the state of a task, `delay-4_0` holds it back, `pid-4_0` is its process.
- `squeue` lists tasks in another order every time, does not know new ones at first, calls running ones pending now and
  then, and fails at every fourth question; while there is a file `silent`, it always fails.
- While there is a file `mute`, `sbatch` accepts arrays but its answer is lost.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

LATE = 2
"""Questions to `squeue` before it knows a new task."""
WORDS = ("sbatch", "squeue", "scancel", "sacct")


def install(folder: Path) -> Path:
    """Write the commands; return the folder to put in front of PATH."""
    (folder / "tasks").mkdir(parents=True)
    commands = folder / "bin"
    commands.mkdir()
    for word in WORDS:
        command = commands / word
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" {word} "{folder}" "$@"\n')
        command.chmod(0o755)
    return commands


def states(folder: Path) -> dict[str, str]:
    """Return the states of all tasks as they really are."""
    return {path.name: path.read_text() for path in (folder / "tasks").iterdir() if not path.name.startswith(".")}


def set_state(folder: Path, name: str, state: str) -> None:
    temporary = folder / "tasks" / f".{name}"
    temporary.write_text(state)
    temporary.replace(folder / "tasks" / name)


def kill(folder: Path, name: str) -> None:
    """Kill the processes of a task, as a machine that breaks down does."""
    os.killpg(int((folder / f"pid-{name}").read_text()), signal.SIGKILL)
    set_state(folder, name, "NODE_FAIL")


def count(folder: Path, what: str) -> int:
    """Count how often something was asked, from 1."""
    with (folder / f"count-{what}").open("a") as file:
        file.write(".")
    return (folder / f"count-{what}").stat().st_size


def sbatch(folder: Path, arguments: list[str]) -> None:
    """Start a process for each task, which waits in the queue first."""
    if (folder / "refuse").exists():
        sys.exit("sbatch: error: Batch job submission failed: Invalid partition name specified")
    options = {key: value for key, _, value in (word.removeprefix("--").partition("=") for word in arguments[:-1])}
    (folder / "sbatch.txt").write_text("\n".join(arguments))
    array = count(folder, "sbatch")
    (folder / f"name-{array}").write_text(options["job-name"])
    last = int(options["array"].partition("-")[2])
    for index in range(last + 1):
        set_state(folder, f"{array}_{index}", "PENDING")
        log = Path(options["output"].replace("%a", str(index))).open("w")  # noqa: SIM115 (the process has it)
        words = [sys.executable, __file__, "task", str(folder), str(array), str(index), arguments[-1]]
        process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True, cwd=options["chdir"])
        (folder / f"pid-{array}_{index}").write_text(str(process.pid))
    if (folder / "mute").exists():
        sys.exit("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation")
    sys.stdout.write(f"{array};cluster\n")


def task(folder: Path, arguments: list[str]) -> None:
    """Wait until the task may run, run it, and note its end."""
    array, index, script = arguments
    name = f"{array}_{index}"
    while (folder / f"delay-{name}").exists() or (folder / "delay").exists():
        time.sleep(0.05)
    set_state(folder, name, "RUNNING")
    code = subprocess.run([script_shell(), script], env={**os.environ, "SLURM_ARRAY_TASK_ID": index}).returncode
    set_state(folder, name, "FAILED" if code else "COMPLETED")


def script_shell() -> str:
    return "/bin/sh"


def squeue(folder: Path, arguments: list[str]) -> None:
    """List the tasks, late, in odd orders, sometimes with an older state, sometimes not at all."""
    assert "--array" in arguments
    number = count(folder, "squeue")
    if number % 4 == 0 or (folder / "silent").exists():
        sys.exit("slurm_load_jobs error: Socket timed out on send/recv operation")
    listed = sorted(states(folder).items(), reverse=number % 2 == 0)
    for name, state in listed:
        if count(folder, f"seen-{name}") > LATE and not (state in ("COMPLETED", "NODE_FAIL") and number % 3):
            shown = "PENDING" if state == "RUNNING" and number % 5 == 0 else state
            array = name.partition("_")[0]
            sys.stdout.write(f"{name} {shown} {(folder / f'name-{array}').read_text()}\n")


def scancel(folder: Path, arguments: list[str]) -> None:
    """Kill tasks that have not ended, by their names or that of their array; others are no mistake."""
    called = {word.partition("=")[2] for word in arguments if word.startswith("--name=")}
    arrays = {path.name.removeprefix("name-") for path in folder.glob("name-*") if path.read_text() in called}
    of_arrays = [name for name in states(folder) if name.partition("_")[0] in arrays]
    for name in (*arguments, *of_arrays):
        if states(folder).get(name) in ("PENDING", "RUNNING"):
            kill(folder, name)
            set_state(folder, name, "CANCELLED")


def sacct(folder: Path, arguments: list[str]) -> None:
    """Print the state of one task."""
    name = next(word.partition("=")[2] for word in arguments if word.startswith("--jobs="))
    sys.stdout.write(states(folder).get(name, ""))


if __name__ == "__main__":
    {"sbatch": sbatch, "squeue": squeue, "scancel": scancel, "sacct": sacct, "task": task}[sys.argv[1]](
        Path(sys.argv[2]), sys.argv[3:]
    )
