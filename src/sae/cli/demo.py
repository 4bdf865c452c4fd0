"""`sae demo`: the main job on embedded data."""

from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from sae.cli import options
from sae.cli.search import Confirming, print_results, resolve_search, run_study

SEEDS = 2
MOST = 5
"""Of the front that are trained again."""


def demo(
    out: Annotated[Path, typer.Option(help="folder for the study")] = Path("runs/demo"),
    force: Annotated[bool, typer.Option(help="start over, whatever the folder holds of a study")] = False,
    epochs: Annotated[int | None, typer.Option(help="passes over the training data")] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="trials of SAE")] = None,
    workers: options.Workers = None,
    json: options.Json = False,
) -> None:
    """Search SAE and the baselines on digits, confirm the best on other seeds, and pick one."""
    from sae.search.executors.local import LocalExecutor

    flags = options.section(train=options.section(epochs=epochs), search=options.section(trials=trials))
    with as_file(files("sae.presets").joinpath("demo.yaml")) as preset:
        settings, study = resolve_search(preset, flags, [])
    executor = LocalExecutor(workers or options.num_cores())
    run_study(out, settings, study, executor, confirming=Confirming(SEEDS, MOST), force=force)
    print_results(out, json=json)
