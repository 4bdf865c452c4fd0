"""Options that several commands share, and their translation into layers of settings."""

import functools
import inspect
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sae.config.settings import Layer, Values
    from sae.data.binding import Whereabouts

METHOD_HELP, BACKBONE_HELP = "{methods}", "{backbones}"
"""Replaced by the registered names when the help is printed; see `fill_help`."""

Method = Annotated[str | None, typer.Option(help=METHOD_HELP)]
Backbone = Annotated[str | None, typer.Option(help=f"{BACKBONE_HELP}, or your own: FILE.py:FUNCTION")]


def _trust(given: bool) -> bool:
    """Let code that settings name be imported, or not."""
    from sae.core.trust import trust_code

    trust_code(is_trusted=given)
    return given


TrustCode = Annotated[
    bool,
    typer.Option("--trust-code", callback=_trust, help="run the code of your own network, --backbone FILE.py:FUNCTION"),
]
Pretrained = Annotated[
    bool,
    typer.Option("--pretrained", help="keep published weights (efficientnet-lite0 to -lite2), or those of your own"),
]
WeightsFile = Annotated[
    Path | None, typer.Option(help="weights of the network: a state dict, as safetensors or written by torch.save")
]
Inputs = Annotated[int | None, typer.Option(help="N, inputs per pass of sae; default: {sae.inputs}")]
Exits = Annotated[int | None, typer.Option(help="K, exits kept per input of sae; default: {sae.exits}")]
Members = Annotated[
    int | None, typer.Option(help="M, members of ensemble, batch_ensemble or packed; default: {ensemble.members}")
]
Samples = Annotated[
    int | None, typer.Option(help="dropout samples averaged by mc_dropout; default: {mc_dropout.samples}")
]
Rate = Annotated[float | None, typer.Option(help="dropout probability of mc_dropout; default: {mc_dropout.rate}")]
Width = Annotated[float | None, typer.Option(help="width multiplier of the backbone, e.g. 2 or 0.5; default: 1")]
Depth = Annotated[int | None, typer.Option(help="stages of the backbone; by default all")]
Blocks = Annotated[str | None, typer.Option(help="convolutions in each stage (vgg), e.g. 1,1,2,2,2")]
DataRoot = Annotated[Path | None, typer.Option(help="folder of data files; by default SAE_DATA_ROOT, then the cache")]
Task = Annotated[
    str | None, typer.Option(help="classification, regression, ordinal or counts (for your own .npz file or table)")
]
Target = Annotated[str | None, typer.Option(help="column to predict (for your own table), or several: a,b,c")]
Order = Annotated[
    list[str] | None,
    typer.Option(help="classes of an ordinal target, the lowest first, e.g. low,mid,high"),
]
Kind = Annotated[str | None, typer.Option(help="what your own .npz file or table holds: images, signals or a table")]
Ignore = Annotated[
    list[str] | None, typer.Option(help="columns of your table not to use, e.g. id,name or '\"height, cm\",id'")
]
Categories = Annotated[list[str] | None, typer.Option(help="columns of your table that hold categories, e.g. zip")]
TABLES = (".csv", ".parquet")
"""Suffixes of tables."""
Missing = Annotated[
    list[str] | None, typer.Option(help="texts of your table that stand for a missing value, e.g. '?,-999'")
]
Dates = Annotated[
    list[str] | None,
    typer.Option(help="columns of your table that must hold dates; those like 2024-01-31 are recognised anyway"),
]
Group = Annotated[str | None, typer.Option(help="column of your table whose groups are never split, e.g. patient")]
Time = Annotated[str | None, typer.Option(help="column of your table to split by: train earliest, test latest")]
Size = Annotated[int | None, typer.Option(help="image size of a MedMNIST set: 28, 64, 128 or 224")]
Resize = Annotated[
    str | None, typer.Option(help="size of your own images: one side, or HEIGHTxWIDTH, e.g. 64 or 48x64")
]
Fit = Annotated[str | None, typer.Option(help="how --resize treats other proportions: stretch (default), pad or crop")]
DataNow = Annotated[
    Path | None, typer.Option("--data", help="where your own data file or folder is now; by default where it was")
]
AllowOtherData = Annotated[
    bool, typer.Option("--allow-other-data", help="go on, and record it, if the data are not those of the run")
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, …; by default where the run was trained")]
Processes = Annotated[
    int | None, typer.Option(min=1, help="processes that train the members of an ensemble; by default one per core")
]
KeepPredictions = Annotated[
    bool,
    typer.Option("--keep-predictions", help="keep the predictions for every sample in the run folder, for sae compare"),
]
Epochs = Annotated[
    int | None, typer.Option(help="passes over the training data; default: what suits the data, or {train.epochs}")
]
SAMPLED = "trials of each method, fewer where it has fewer configurations"
Trials = Annotated[
    int | None,
    typer.Option(
        min=1,
        help=f"{SAMPLED} (see --grid); default: {{trials}}, or with --hours as many as fit into the time",
    ),
]
BudgetTrials = Annotated[int | None, typer.Option(min=1, help=f"{SAMPLED}; default: what the budget says")]
Hours = Annotated[float | None, typer.Option(help="start no new trial after this many hours; default: no limit")]
SearchSeed = Annotated[int | None, typer.Option(help="seed of the search and of its runs; default: {run.seed}")]
StudyForce = Annotated[bool, typer.Option(help="delete the study in the folder and start over")]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, help="trials that run at the same time; by default one per core (`sae experiment --budget paper`: 4)"
    ),
]
Executor = Annotated[Literal["local", "ray", "slurm"], typer.Option(help="where trials run")]
Address = Annotated[
    str | None, typer.Option(help="address of a Ray cluster; by default one is started on this machine")
]
CpusPerTrial = Annotated[float, typer.Option(help="CPUs for each trial, with --executor ray or slurm")]
GpusPerTrial = Annotated[float, typer.Option(help="GPUs for each trial, with --executor ray or slurm")]
Partition = Annotated[
    str | None, typer.Option(help="partition of a SLURM cluster; by default the one that SLURM chooses")
]
ArrayMax = Annotated[int | None, typer.Option(min=1, help="trials at once on a SLURM cluster, one array task each")]
Storage = Annotated[
    str | None, typer.Option(help="URL of a database for the trials; by default a file in the study folder")
]
Maximum = Annotated[list[str] | None, typer.Option("--max", help="upper limit, e.g. flops=2e6; can be repeated")]
Minimum = Annotated[list[str] | None, typer.Option("--min", help="lower limit, e.g. f1=0.8; can be repeated")]
Tolerance = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="show candidates of a front as one row if they differ by at most this share in every cost, and by no more "
        "than matters in every metric; 0: never; default: 0.01",
    ),
]
EvalExits = Annotated[int | None, typer.Option(help="K′, exits kept per input; by default the best on validation")]
AdaptiveExits = Annotated[int | None, typer.Option(help="K′, exits kept per input; by default the trained K")]
Refit = Annotated[
    bool | None,
    typer.Option(
        "--refit/--no-refit",
        help="first train again, on validation samples too; by default for a pick for classes of your own small data",
    ),
]
ShippedExits = Annotated[
    int | None,
    typer.Option(help="K′, exits kept per input; by default the best on validation, with --adaptive the trained K"),
]
Json = Annotated[bool, typer.Option("--json", help="print one JSON object instead of a table")]
Run = Annotated[Path, typer.Argument(help="folder of a finished run")]
Study = Annotated[Path, typer.Argument(help="folder of a study")]
Prefer = Annotated[
    str | None,
    typer.Option(help="metric or cost in which the pick must be best; by default the best compromise (the knee)"),
]
Weights = Annotated[
    list[str] | None,
    typer.Option("--weight", help="how much an objective counts in the compromise, e.g. nll=2; can be repeated"),
]
Objectives = Annotated[
    str | None, typer.Option(help="metrics and costs to compare, e.g. nll,f1,flops; by default the study's objectives")
]
UnderShift = Annotated[
    bool, typer.Option("--shift", help="compare metrics on corrupted validation images instead of clean ones")
]
Methods = Annotated[str | None, typer.Option("--method", help="only these methods, e.g. sae,ensemble; by default all")]


def fill_help(text: str) -> str:
    """Replace the placeholders in a help text by the names of registered methods and backbones, and by defaults.

    Example:
        >>> fill_help("one of {backbones}")
        'one of fc, vgg, resnet, vit, conv1d, efficientnet-lite0, efficientnet-lite1 or efficientnet-lite2'
        >>> fill_help("default: {train.epochs}")
        'default: 50'
    """
    from sae.config.backbones import BACKBONES
    from sae.config.methods import METHODS

    for placeholder, registry in ((METHOD_HELP, METHODS), (BACKBONE_HELP, BACKBONES)):
        if placeholder in text:
            *names, last = registry.names()
            text = text.replace(placeholder, f"{', '.join(names)} or {last}")
    return re.sub(r"\{(\w+)(?:\.(\w+))?\}", lambda found: default_text(found[1], found[2]), text)


def default_text(section: str, setting: str | None) -> str:
    """Return the default of a setting for the help, from where it is defined: `2` for `sae`, `inputs`."""
    from sae.config.methods import METHODS
    from sae.config.run import RunConfig, TrainConfig
    from sae.config.settings import Settings
    from sae.config.study import DEFAULT_TRIALS, ConfirmConfig, SearchConfig

    if setting is None:
        return {"trials": str(DEFAULT_TRIALS)}[section]
    sections: dict[str, type[Settings]] = {
        "train": TrainConfig,
        "run": RunConfig,
        "search": SearchConfig,
        "confirm": ConfirmConfig,
    }
    settings = sections[section] if section in sections else METHODS.get(section).settings
    return str(settings.model_fields[setting].default)


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def integers(flag: str, text: str | None) -> list[int] | None:
    """Read `1,1,2` as a list of numbers."""
    from sae.core.errors import ConfigError

    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"{flag} takes whole numbers separated by commas, got {text!r}") from None


def names(flag: str, text: str | None, *, may_be_empty: bool = False) -> list[str] | None:
    """Read `nll,f1` as a list of different names; a name with a comma is quoted as in CSV: `"height, cm",id`.

    Args:
        flag: The option.
        text: Its value.
        may_be_empty: Whether a name may be empty, as that of a column of row numbers often is.
    """
    import csv

    from sae.core.errors import ConfigError

    if text is None:
        return None
    try:
        found = [part.strip() for part in next(csv.reader([text], skipinitialspace=True, strict=True), [])] or [""]
    except csv.Error:
        raise ConfigError(f'{flag} takes names separated by commas, quoted as in "a, b",c, got {text!r}') from None
    if not (may_be_empty or all(found)) or len(set(found)) < len(found):
        raise ConfigError(f"{flag} takes different names separated by commas, got {text!r}")
    return found


def bounds(flag: str, texts: list[str] | None) -> dict[str, float]:
    """Read texts such as `flops=2e6` as bounds by name."""
    from sae.core.errors import ConfigError

    found: dict[str, float] = {}
    for text in texts or []:
        name, _, number = (part.strip() for part in text.partition("="))
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not name or not math.isfinite(value):
            raise ConfigError(f"{flag} takes name=number, e.g. flops=2e6, got {text!r}")
        if name in found:
            raise ConfigError(f"{flag} takes each name once, got {name} twice")
        found[name] = value
    return found


def one_of(argument: str | None, option: str | None) -> str | None:
    """Return the data, which are given as argument or as --data."""
    from sae.core.errors import ConfigError

    if argument is not None and option is not None:
        raise ConfigError(f"the data are given twice, as {argument!r} and as --data {option!r}: leave out one of them")
    return option if argument is None else argument


def section(**values: object) -> "Values":
    """Return a section of settings that holds only the given ones."""
    return {key: value for key, value in values.items() if value is not None and value != {}}


def task_layers(layers: "Sequence[Layer]") -> "list[Layer]":
    """Return a layer with the task of the user's own table, and say so, if no layer sets it and it can be told.

    An order of classes tells it without a word.
    """
    from sae.cli.output import print_message
    from sae.config.settings import merge
    from sae.data.locations import find_own
    from sae.data.targets import infer_task

    merged: Layer = functools.reduce(merge, ({"data": layer["data"]} for layer in layers if "data" in layer), {})
    data = merged.get("data")
    if not isinstance(data, Mapping) or data.get("task") is not None:
        return []
    name, target, missing = data.get("name"), data.get("target"), data.get("missing") or ()
    targets = [target] if isinstance(target, str) else target
    is_named = isinstance(name, str) and isinstance(targets, list | tuple) and isinstance(missing, list | tuple)
    if not is_named or Path(str(name)).suffix.lower() not in TABLES:
        return []
    if data.get("order"):
        return [{"data": {"task": "ordinal"}}]
    task, reason = infer_task(find_own(str(name)), [str(one) for one in targets or ()], [str(text) for text in missing])
    print_message(f"task: {task}, because {reason}; --task says otherwise")
    return [{"data": {"task": task}}]


def layers_over(flags: "Values", assignments: list[str]) -> "list[Values]":
    """Return the layers that override a config file or a preset, lowest first: flags, then each --set."""
    from sae.config.settings import from_assignments

    return [flags, *(from_assignments([text]) for text in assignments)]


@dataclass(frozen=True)
class DataOptions:
    """Options about the place of data, and about reading a user's own."""

    task: Task = None
    target: Target = None
    order: Order = None
    kind: Kind = None
    ignore: Ignore = None
    missing: Missing = None
    categories: Categories = None
    dates: Dates = None
    group: Group = None
    time: Time = None
    size: Size = None
    resize: Resize = None
    fit: Fit = None
    data_root: DataRoot = None

    def layer(self, name: str | None = None) -> "Values":
        """Return the `data` section of settings, and look for files in the data root from now on.

        Names of columns may be repeated or separated by commas.
        """
        from sae.data.locations import choose_data_root

        choose_data_root(self.data_root)
        given = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "data_root"}
        lists = {
            key: names(f"--{key}", ",".join(value), may_be_empty=key == "ignore")
            for key, value in given.items()
            if isinstance(value, list)
        }
        targets = names("--target", self.target)
        return section(name=name, **given | lists | {"target": targets if targets and targets[1:] else self.target})


@dataclass(frozen=True)
class BackboneOptions:
    """Options about the network and its weights."""

    backbone: Backbone = None
    pretrained: Pretrained = False
    weights_file: WeightsFile = None

    def layer(self, **sizes: object) -> "Values":
        """Return the `backbone` section of settings."""
        file = self.weights_file and str(self.weights_file)
        return section(name=self.backbone, pretrained=self.pretrained or None, weights_file=file, **sizes)


@dataclass(frozen=True)
class RunDataOptions:
    """Options about the data of a finished run today, and about trust in the code of its network."""

    data: DataNow = None
    allow_other_data: AllowOtherData = False
    data_root: DataRoot = None
    trust_code: TrustCode = False

    def where(self) -> "Whereabouts":
        """Return where the data are, and look for files in the data root from now on."""
        from sae.data.binding import Whereabouts
        from sae.data.locations import choose_data_root

        choose_data_root(self.data_root)
        return Whereabouts(self.data, self.allow_other_data)


def spread_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Turn every parameter of a command that is a dataclass into one option for each of its fields.

    Typer reads options from the signature; a group stands there as if its fields were written out in its place.
    """
    parameters = inspect.signature(command).parameters
    kinds = {name: each.annotation for name, each in parameters.items()}
    groups = {name: kind for name, kind in kinds.items() if isinstance(kind, type) and is_dataclass(kind)}
    spread: list[inspect.Parameter] = []
    for name, each in parameters.items():
        spread += inspect.signature(groups[name]).parameters.values() if name in groups else [each]

    @functools.wraps(command)
    def run(**given: object) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    options_only = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in spread]
    run.__signature__ = inspect.Signature(options_only)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in options_only}
    return run
