"""Flags that several commands share, and how they become layers of settings."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

METHOD_HELP = "sae, standard, ensemble, mc_dropout or batch_ensemble"

Method = Annotated[str | None, typer.Option(help=METHOD_HELP)]
Backbone = Annotated[str | None, typer.Option(help="fc, vgg, resnet or vit")]
Inputs = Annotated[int | None, typer.Option(help="N, inputs per pass (sae)")]
Exits = Annotated[int | None, typer.Option(help="K, exits kept per input (sae)")]
Members = Annotated[int | None, typer.Option(help="M, members (ensemble, batch_ensemble)")]
Samples = Annotated[int | None, typer.Option(help="draws that are averaged at prediction (mc_dropout)")]
Rate = Annotated[float | None, typer.Option(help="probability of dropping a number (mc_dropout)")]
Width = Annotated[int | None, typer.Option(help="width multiplier of the backbone")]
Depth = Annotated[int | None, typer.Option(help="stages of the backbone; by default all")]
Blocks = Annotated[str | None, typer.Option(help="convolutions in each stage of vgg, e.g. 1,1,2,2,2")]
DataRoot = Annotated[
    Path | None, typer.Option(help="folder where data files are looked for first; else SAE_DATA_ROOT, then the cache")
]
Task = Annotated[str | None, typer.Option(help="classification or regression, for your own .npz or table")]
Target = Annotated[str | None, typer.Option(help="column to predict, for your own table")]
Size = Annotated[int | None, typer.Option(help="side of the images of a MedMNIST set: 28, 64, 128 or 224")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, …; by default where the run was trained")]
Processes = Annotated[
    int | None, typer.Option(min=1, help="processes for the members of an ensemble; by default one for each core")
]
EvalExits = Annotated[int | None, typer.Option(help="K′, exits kept per input; by default the trained K")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON object instead of a table")]
Run = Annotated[Path, typer.Argument(help="folder of a finished run")]


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def integers(flag: str, text: str | None) -> list[int] | None:
    """Read `1,1,2` as numbers."""
    from sae.errors import ConfigError

    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"{flag} takes whole numbers separated by commas, got {text!r}") from None


def section(**values: Any) -> dict[str, Any]:
    """A section of settings with only what was given."""
    return {key: value for key, value in values.items() if value is not None and value != {}}
