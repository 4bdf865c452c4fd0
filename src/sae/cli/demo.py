"""`sae demo`: the main job on embedded data."""

from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from sae.cli import options
from sae.cli.results import print_results
from sae.cli.search import read_layers

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
    """Search SAE and the baselines on digits, confirm the best on other seeds, pick one and ship it."""
    from sae.analysis.selection import select
    from sae.cli.output import print_message
    from sae.cli.receipt import print_receipt
    from sae.deploy.receipt import ship_pick
    from sae.errors import ModelError
    from sae.search.executors.local import LocalExecutor
    from sae.search.plan import resolve_search
    from sae.search.run import Confirming, run_study

    flags = options.section(train=options.section(epochs=epochs), search=options.section(trials=trials))
    with as_file(files("sae.presets").joinpath("demo.yaml")) as preset:
        plan = resolve_search(read_layers(preset, flags, []))
    executor = LocalExecutor(workers or options.num_cores())
    again = Confirming(SEEDS, MOST)
    record = run_study(out, plan, executor, confirming=again, force=force, on_word=print_message)
    print_message("exporting the pick, and what it is compared with")
    model = out / record.SHIPPED / "model.onnx"
    selection = select(record)
    try:
        _, receipt = ship_pick(selection, model)
    except ModelError:  # the pick of an earlier session, with fewer trials
        _, receipt = ship_pick(selection, model, force=True)
    print_results(out, json=json, receipt=receipt)
    if not json:
        print_receipt(str(model), receipt)
