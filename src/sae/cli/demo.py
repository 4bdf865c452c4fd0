"""The command `sae demo`: a small experiment on embedded data."""

from pathlib import Path
from typing import Annotated

import typer

from sae.cli import options
from sae.cli.experiment import carry_out


def demo(
    out: Annotated[Path, typer.Option(help="folder for the study")] = Path("runs/demo"),
    force: options.StudyForce = False,
    epochs: options.Epochs = None,
    trials: Annotated[int | None, typer.Option(min=1, help="trials of SAE")] = None,
    workers: options.Workers = None,
    json: options.Json = False,
) -> None:
    """Run a small experiment on digits: search SAE and the baselines, confirm, pick, ship and report."""
    from sae.experiment.settings import read_preset
    from sae.search.executors.local import LocalExecutor
    from sae.search.plan import resolve_search
    from sae.search.run import Place

    flags = options.section(train=options.section(epochs=epochs), search=options.section(trials=trials))
    plan = resolve_search([read_preset("demo"), flags])
    executor = LocalExecutor(workers or options.num_cores())
    carry_out(Place(out, executor, force=force), plan, json=json)
