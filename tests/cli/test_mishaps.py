"""Arguments that can only be a mistake, and what the system does to a command."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sae.training.run
from sae.cli import app


def refused(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert len(result.stderr.strip().splitlines()) == 1
    return result.exit_code, result.stderr


@pytest.mark.parametrize("arguments", [("train", "--data", "digits", "--out", ""), ("runs", ""), ("runs", "--sort=")])
def test_an_empty_argument_is_refused(arguments: tuple[str, ...]) -> None:
    code, error = refused(*arguments)
    assert code == 2
    assert "must not be empty" in error


def test_a_name_that_is_no_utf8_is_refused() -> None:
    code, error = refused("show", os.fsdecode(b"caf\xe9"))
    assert code == 2
    assert "must be UTF-8" in error


@pytest.mark.parametrize("command", ["show", "runs", "report", "pareto"])
def test_a_name_that_is_too_long_is_named(command: str) -> None:
    code, error = refused(command, "x" * 5000)
    assert code in (1, 2)
    assert "name too long" in error
    assert len(error) < 3000


class PanicException(BaseException):
    """What safetensors raises where an allocation fails."""


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"),
        ImportError("_isfinite.so: failed to map segment from shared object"),
        PanicException("PyObject pointer is null"),
    ],
)
def test_too_little_memory_is_said_in_one_sentence(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(sae.training.run, "_train", fail)
    code, said = refused("train", "--data", "digits", "--epochs", "1", "--out", str(tmp_path / "run"))
    assert code == 1
    assert "the memory of this machine is not enough" in said


def test_an_interrupt_that_python_wraps_is_still_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("Error calling __set_name__ on 'Field' instance") from KeyboardInterrupt()

    monkeypatch.setattr(sae.training.run, "_train", fail)
    said = refused("train", "--data", "digits", "--epochs", "1", "--out", str(tmp_path / "run"))
    assert said == (130, "interrupted; the same command continues from here\n")


INTERRUPTED = """
import builtins, os, signal, sys
imported, module = builtins.__import__, sys.argv.pop(1)
def interrupting(name, *rest, **more):
    if name == module:
        os.kill(os.getpid(), signal.SIGINT)
    return imported(name, *rest, **more)
builtins.__import__ = interrupting
from sae.__main__ import main
main()
"""


PARSING = """
import os, signal, typer.main
made = typer.main.get_command
def interrupting(app):
    os.kill(os.getpid(), signal.SIGINT)
    return made(app)
typer.main.get_command = interrupting
from sae.__main__ import main
main()
"""


def start(code: str, *arguments: str, at_interrupt: signal.Handlers) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, at_interrupt),
    )


@pytest.mark.parametrize("module", ["typer", "typer.core"])
def test_an_interrupt_while_commands_are_imported_leaves_no_traceback(module: str) -> None:
    done = start(INTERRUPTED, module, at_interrupt=signal.SIG_DFL)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_an_interrupt_while_arguments_are_parsed_leaves_no_traceback() -> None:
    done = start(PARSING, "--version", at_interrupt=signal.SIG_DFL)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_an_interrupt_is_ignored_where_the_shell_has_it_ignored() -> None:
    done = start(INTERRUPTED, "typer", "--version", at_interrupt=signal.SIG_IGN)
    assert (done.returncode, done.stderr) == (0, "")
