"""Commands in forked processes without privileges, under limits on memory and time."""

import os
import resource
import signal
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from typer.testing import CliRunner

from sae.cli import app
from tests.unprivileged import drop_overrides

CPU_SECONDS = 30
WALL_SECONDS = 240.0
MEMORY = 2 << 30
"""Bytes of address space beyond those of the process that forks."""
UNCAUGHT = 70
LONGEST_ERROR = 4000


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, or the negative number of a signal; and what it said."""

    code: int
    output: str
    error: str

    @property
    def fault(self) -> str | None:
        """What is wrong with how it ended; None if it is one sentence and an exit code of ours."""
        if self.code in (-signal.SIGXCPU, -signal.SIGKILL):
            return "hang"
        if self.code < 0:
            return f"signal {-self.code}"
        if self.code == UNCAUGHT or "Traceback" in self.error:
            return "traceback"
        if self.code not in (0, 1, 2, 3):
            return f"exit code {self.code}"
        said = [line for line in self.error.splitlines() if line.startswith("error: ")]
        if self.code and len(said) != 1:
            return "no sentence"
        return "a long message" if len(self.error) > LONGEST_ERROR else None


def run_command(arguments: list[str], folder: Path) -> Ended:
    """Run `sae` with these arguments in a forked process; what it prints goes through files in the folder."""
    return end_of(start_command(arguments, folder), folder)


def start_command(arguments: list[str], folder: Path) -> int:
    """Start `sae` with these arguments in a forked process, and return its number."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _become(arguments, folder / ".out", folder / ".err")
    return child


def end_of(child: int, folder: Path) -> Ended:
    """Wait for a process that was started with this folder."""
    out, err = folder / ".out", folder / ".err"
    give_up = time.monotonic() + WALL_SECONDS
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > give_up:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)
    return Ended(os.waitstatus_to_exitcode(status), *(path.read_text(errors="replace") for path in (out, err)))


def call_here(arguments: list[str]) -> Ended:
    """Run `sae` with these arguments in this process, which is many times faster; a hang is interrupted."""
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, hard))
    try:
        with warnings.catch_warnings():
            warnings.resetwarnings()  # as for a user; for pytest they are errors
            warnings.simplefilter("ignore", DeprecationWarning)
            result = CliRunner().invoke(app, arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))
        signal.setitimer(signal.ITIMER_REAL, 0)
    error = result.exception
    if error is None or isinstance(error, SystemExit):
        return Ended(result.exit_code, result.stdout, result.stderr)
    said = "".join(traceback.format_exception(error))
    return Ended(-signal.SIGKILL if isinstance(error, _HangError) else UNCAUGHT, result.stdout, said)


class _HangError(BaseException):
    """A command that does not end."""


def _give_up(*_: object) -> NoReturn:
    raise _HangError


def _become(arguments: list[str], out: Path, err: Path) -> NoReturn:
    code = UNCAUGHT
    try:
        for number, path in ((1, out), (2, err)):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            os.dup2(handle, number)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", errors="backslashreplace")
        warnings.resetwarnings()  # as for a user; for pytest they are errors
        warnings.simplefilter("ignore", DeprecationWarning)
        drop_overrides()
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
        spent = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
        resource.setrlimit(resource.RLIMIT_CPU, (spent + CPU_SECONDS, spent + CPU_SECONDS + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = _call(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _call(arguments: list[str]) -> int:
    from sae.cli import main

    sys.argv = ["sae", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0
