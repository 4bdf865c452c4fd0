"""The `sae` command line. Commands import what they need when they run: `sae --help` loads no torch."""

import errno
import io
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Annotated, NoReturn, TypeGuard

import typer

from sae.cli.help import Command, Group
from sae.core.errors import ConfigError, MissingExtraError, SaeError, SaeWarning
from sae.core.interrupts import INTERRUPTED, raise_again
from sae.core.progress import Bar, showing_reading
from sae.core.version import __version__

ARGUMENTS = "sae.arguments"
LONGEST_MESSAGE = 2000
"""Characters of an error; a file may give a value of any length."""
OUT_OF_MEMORY = (
    "the memory of this machine is not enough: try a smaller --width, train.batch_size or number of --workers; "
    "finished epochs are kept, and the same command continues from there"
)

NO_MEMORY = (
    *("can't allocate memory", "not enough memory", "out of memory", "Cannot allocate memory"),
    "failed to map segment from shared object",
)
CONTINUES = "interrupted; the same command continues from here"


@contextmanager
def errors_in_one_sentence() -> Iterator[None]:
    """Turn errors into one sentence and an exit code, and warnings of ours into one line each.

    Exit codes: 2 mistake of the user, 3 unusable result, 130 interrupted.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", SaeWarning)
            warnings.showwarning = _showing_our_warnings(warnings.showwarning)
            with showing_reading(Bar):
                yield
    except SaeError as error:
        _fail("; ".join([str(error), *getattr(error, "__notes__", ())]), error.exit_code)
    except ModuleNotFoundError as error:
        missing = MissingExtraError.of(error, "this command")
        if missing is None:
            raise
        _fail(str(missing), missing.exit_code)
    except KeyboardInterrupt:
        _fail(CONTINUES, INTERRUPTED)
    except MemoryError:
        _fail(OUT_OF_MEMORY, 1)
    except OSError as error:  # of the system, about a path that no reader has asked for: a folder, a socket, the disk
        if error.errno in (None, errno.EPIPE):
            raise
        place = f"{error.filename}: " if error.filename else ""
        _fail(f"{place}{error.strerror}", 1)
    except BaseException as error:
        if is_out_of_memory(error):
            _fail(OUT_OF_MEMORY, 1)
        if was_interrupted(error):
            _fail(CONTINUES, INTERRUPTED)
        if not _is_usage_error(error) or type(error).__name__ == "NoArgsIsHelpError":
            raise
        _fail(error.format_message(), 2)


def was_interrupted(error: BaseException | None) -> bool:
    """Return whether Ctrl-C caused an error: in the middle of an import, Python may wrap it into another one."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory was not enough for somebody who has no exception of their own for that.

    These are torch on a CPU, the system's loader of shared libraries, and safetensors, where Rust panics.
    """
    if type(error).__name__ == "PanicException":  # it cannot be imported, and is no Exception
        return "pointer is null" in str(error)
    return isinstance(error, (RuntimeError, ImportError)) and any(words in str(error) for words in NO_MEMORY)


NAMES_COLUMNS = "--ignore"
"""Takes an empty name, too: that of the column of row numbers that some programs write."""


def check_arguments(arguments: Sequence[str]) -> None:
    """Refuse arguments that can only be a mistake: empty ones, and those that no config or report could hold."""
    for before, argument in pairwise(["", *arguments]):
        is_empty = not argument or (argument.startswith("--") and argument.endswith("=") and "=" not in argument[:-1])
        if is_empty and NAMES_COLUMNS not in (before, argument.removesuffix("=")):
            after = argument or (f"after {before}" if before else "as the first")
            raise ConfigError(f"an argument must not be empty, got one {after}: is a variable of the shell unset?")
        try:
            argument.encode("utf-8")
        except UnicodeEncodeError:
            raise ConfigError(f"arguments must be UTF-8, got {argument!r}: rename the file or folder") from None


def _is_usage_error(error: BaseException) -> TypeGuard[typer.BadParameter]:
    """Return whether the parser refused the arguments.

    Some versions of typer bring a parser of their own, others use click's; typer names only one of its errors.
    """
    return isinstance(error, typer.BadParameter.__base__ or ())


def _showing_our_warnings(show: Callable[..., None]) -> Callable[..., None]:
    """Return a function that prints each warning of ours once, for users, and leaves others to `show`."""
    said = set()

    def show_warning(message: Warning | str, category: type[Warning], *rest: object) -> None:
        from sae.cli.output import print_message

        if not issubclass(category, SaeWarning):
            show(message, category, *rest)
        elif str(message) not in said:
            said.add(str(message))
            print_message(f"warning: {message}")

    return show_warning


def _fail(message: str, code: int) -> NoReturn:
    from sae.cli.output import print_message

    if len(message) > LONGEST_MESSAGE:
        half = LONGEST_MESSAGE // 2
        message = f"{message[:half]} … {message[-half:]}"  # the reason and the advice come last
    print_message(f"error: {message}" if code != INTERRUPTED else message)
    raise typer.Exit(code)


class Commands(Group):
    """The commands."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse arguments, and keep them as they were given."""
        ctx.meta[ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)

    @errors_in_one_sentence()
    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        """Carry out the command."""
        raise_again()
        check_arguments(ctx.meta.get(ARGUMENTS, ()))
        return super().invoke(ctx)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def print_version(wanted: bool) -> None:
    """Print the version and end the command, if it is asked for."""
    if wanted:
        from sae.cli.output import print_line

        print_line(f"sae {__version__}")
        raise typer.Exit


@app.callback()
def describe(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="print the version and exit")
    ] = False,
) -> None:
    """Single Architecture Ensembles: an ensemble's accuracy and calibration at one network's cost."""
    del version


def main() -> None:
    """Parse the command line and carry it out."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files need not be UTF-8
    app()


from sae.cli import bench, compare, data, report, runs, search, shipping, show, study, training  # noqa: E402

app.command("train", cls=Command)(training.train)
app.command("evaluate", cls=Command)(training.evaluate)
app.command("trim", cls=Command)(training.trim)
app.command("compare", cls=Command)(compare.compare)
app.command("search", cls=Command)(search.search)
app.command("cost", cls=Command)(training.cost)
app.command("show", cls=Command)(show.show)
app.command("export", cls=Command)(shipping.export)
app.command("predict", cls=Command)(shipping.predict)
app.command("bench", cls=Command)(bench.bench)
app.command("adaptive", cls=Command)(shipping.adaptive)
app.add_typer(data.app, name="data")
app.command("pareto", cls=Command)(study.pareto)
app.command("pick", cls=Command)(study.pick)
app.command("runs", cls=Command)(runs.runs)
app.command("verify", cls=Command)(runs.verify)
app.command("report", cls=Command)(report.report)
app.command("experiment", cls=Command)(search.experiment)
app.command("demo", cls=Command)(search.demo)
