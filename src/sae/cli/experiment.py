"""`sae experiment`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sae.cli import options
from sae.cli.results import print_results
from sae.cli.search import make_executor

if TYPE_CHECKING:
    from sae.search.executors import Executor
    from sae.search.plan import SearchPlan


def experiment(
    what: Annotated[str, typer.Argument(help="a data set's name, the path of your own data, or a YAML file")],
    budget: Annotated[
        str, typer.Option(help="small: about an hour on two cores; paper: the paper's settings")
    ] = "small",
    out: Annotated[Path | None, typer.Option(help="folder for the study; by default experiments/NAME-BUDGET")] = None,
    task: options.Task = None,
    target: options.Target = None,
    size: options.Size = None,
    data_root: options.DataRoot = None,
    epochs: options.Epochs = None,
    trials: options.Trials = None,
    hours: options.Hours = None,
    seed: options.SearchSeed = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="any setting, e.g. confirm.seeds=2")] = None,
    workers: options.Workers = None,
    executor: options.Executor = "local",
    address: options.Address = None,
    cpus_per_trial: options.CpusPerTrial = 1.0,
    gpus_per_trial: options.GpusPerTrial = 0.0,
    storage: options.Storage = None,
    force: options.StudyForce = False,
    json: options.Json = False,
) -> None:
    """Search, confirm on other seeds, test clean and shifted, ship and report; the same command again continues."""
    from sae.data.locations import choose_data_root
    from sae.experiment import experiment_layers
    from sae.search.plan import resolve_search

    choose_data_root(data_root)
    flags = options.section(
        data=options.section(task=task, target=target, size=size),
        train=options.section(epochs=epochs),
        seed=seed,
        search=options.section(trials=trials, hours=hours),
    )
    layers = experiment_layers(what, budget, options.layers_over(flags, set_ or []))
    place = make_executor(executor, workers, address, cpus_per_trial, gpus_per_trial)
    folder = out or Path("experiments") / f"{Path(what).stem}-{budget}"
    carry_out(folder, resolve_search(layers), place, storage, force=force, json=json)


def carry_out(
    out: Path, plan: "SearchPlan", executor: "Executor", storage: str | None = None, *, force: bool, json: bool
) -> None:
    """Run an experiment and print what it comes to."""
    from sae.cli.output import print_line, print_message
    from sae.cli.receipt import print_receipt
    from sae.experiment import Place, run_experiment
    from sae.records.study import StudyRecord

    receipt = run_experiment(Place(out, executor, storage, force), plan, print_message)
    paths: dict[str, Any] = {
        "model": str(out / StudyRecord.SHIPPED / StudyRecord.MODEL),
        "report": str(out / StudyRecord.REPORT),
    }
    print_results(out, json=json, more={"receipt": receipt.to_json(), **paths})
    if not json:
        print_receipt(paths["model"], receipt)
        print_line(f"model:          {paths['model']}")
        print_line(f"report:         {paths['report']}")
