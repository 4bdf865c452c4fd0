"""The help of commands: plain text, options in groups, with defaults, that fits a narrow terminal."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup


class Formatter(Protocol):
    """The writer of the help: click's formatter, or that of a typer which brings its own."""

    def section(self, name: str) -> AbstractContextManager[None]:
        """Begin a part of the help with this heading."""

    def write_dl(self, rows: Sequence[tuple[str, str]]) -> None:
        """Write names with their explanations."""


class Parameter(Protocol):
    """An option or argument of a command."""

    @property
    def name(self) -> str | None:
        """Its name in the signature of the command."""

    @property
    def opts(self) -> list[str]:
        """What is typed on the command line, such as `-h` and `--help`."""

    def get_help_record(self, ctx: typer.Context) -> tuple[str, str] | None:
        """Return its name and its help; None if it is hidden."""


GROUPS = {
    "Data": (
        *(
            "data",
            "task",
            "target",
            "order",
            "kind",
            "ignore",
            "missing",
            "categories",
            "dates",
            "group",
            "time",
            "size",
        ),
        *("resize", "fit", "data_root", "allow_other_data", "split", "ood"),
    ),
    "Network": (
        *("method", "backbone", "pretrained", "weights_file", "inputs", "exits", "members", "samples", "rate", "width"),
        *("depth", "blocks"),
        *("eval_exits", "with_exits", "active", "input_shape", "outputs", "trust_code"),
    ),
    "Training": (
        *("epochs", "teacher", "seed", "recipe", "config", "set_", "processes", "device", "distill"),
        "tensorboard",
    ),
    "Search": (
        *("objectives", "prefer", "weight", "max_", "min_", "budget", "trials", "hours", "sampler", "startup", "grid"),
        "k_free",
        *("stop_early", "shift", "shift_sets", "confirm", "confirm_most", "confirm_each", "confirm_shifted"),
        *("workers", "executor", "address", "partition", "array_max", "cpus_per_trial", "gpus_per_trial", "storage"),
    ),
    "Output": (
        *("out", "force", "json", "csv", "figure", "figures", "tables", "style", "title", "tolerance"),
        "keep_predictions",
        *("threshold", "cost_fp", "cost_fn", "positive"),
        *("calibrate", "int8", "adaptive", "keep_accuracy", "mean_flops", "help", "version"),
    ),
}
"""Options in the order in which the help lists them; those that are not here come first."""


class Command(TyperCommand):
    """A command whose help lists registered methods and backbones and the defaults of settings."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse arguments; for an unknown option that is a setting, say how to set it."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            is_unknown = type(error).__name__ == "NoSuchOption"  # of click, or of a typer which brings its own
            option = str(getattr(error, "option_name", "")) if is_unknown else ""
            setting = setting_called(option.lstrip("-").replace("-", "_"))
            if setting is not None and any(parameter.name == "set_" for parameter in self.params):
                message = {"message": f"No such option: {option}, but --set {setting}=…", "possibilities": None}
                vars(error).update(message)
            raise

    def format_options(self, ctx: typer.Context, formatter: Formatter) -> None:  # type: ignore[override]
        """Write the arguments, then the options of each group."""
        for title, rows in help_sections(self, ctx):
            with formatter.section(title):
                formatter.write_dl(rows)


class Group(TyperGroup):
    """Commands whose help says in a whole sentence what each does."""

    def format_commands(self, ctx: typer.Context, formatter: Formatter) -> None:  # type: ignore[override]
        """Write the commands with the first sentence of each, whole."""
        rows = [(name, first_paragraph(command)) for name, command in shown_commands(self, ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def setting_called(name: str) -> str | None:
    """Return the path of a setting of training or data by its name, or by another name that people give it.

    Example:
        >>> setting_called("learning_rate"), setting_called("flip"), setting_called("colour")
        ('train.lr', 'data.flip', None)
    """
    from sae.config.run import DataConfig, TrainConfig
    from sae.config.settings import OTHER_NAMES, Settings

    usual = OTHER_NAMES.get(name, name)
    sections: dict[str, type[Settings]] = {"train": TrainConfig, "data": DataConfig}
    return next((f"{key}.{usual}" for key, section in sections.items() if usual in section.model_fields), None)


def help_sections(
    command: TyperCommand | TyperGroup, ctx: typer.Context
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the parts of a command's help, each a heading with names and their explanations."""
    fill(command)
    arguments: list[Parameter] = [item for item in command.params if isinstance(item, TyperArgument)]
    options: list[Parameter] = [item for item in command.get_params(ctx) if not isinstance(item, TyperArgument)]
    for title, items in (("Arguments", arguments), *grouped(options)):
        rows = [row for item in items if (row := item.get_help_record(ctx)) is not None]
        if rows:
            yield title, rows


def shown_commands(group: TyperGroup, ctx: typer.Context) -> Iterator[tuple[str, TyperCommand | TyperGroup]]:
    """Yield the commands of a group that are not hidden, with their names, in their order."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, TyperCommand | TyperGroup) and not command.hidden:
            yield name, command


def first_paragraph(command: TyperCommand | TyperGroup) -> str:
    """Return what a command does, in one line."""
    return (command.help or "").strip().split("\n\n")[0].replace("\n", " ")


def fill(command: TyperCommand | TyperGroup) -> None:
    """Replace the placeholders in the help of a command's parameters."""
    from sae.cli.options import fill_help

    for parameter in command.params:
        text = getattr(parameter, "help", None)
        if text:
            parameter.help = fill_help(text)  # type: ignore[attr-defined]


def grouped(options: Sequence[Parameter]) -> Iterator[tuple[str, list[Parameter]]]:
    """Yield the options of each group, in its order."""
    known = {name for names in GROUPS.values() for name in names}
    yield "Options", [item for item in options if name_in_groups(item) not in known]
    for title, names in GROUPS.items():
        members = [item for item in options if name_in_groups(item) in names]
        yield title, sorted(members, key=lambda item: names.index(name_in_groups(item)))


def name_in_groups(option: Parameter) -> str:
    """Return the name by which `GROUPS` lists an option: its own, but click 8.5 keeps `--help` under another one."""
    return "help" if "--help" in option.opts else option.name or ""
