"""The commands `sae experiment` and `sae demo`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sae.cli import options
from sae.cli.results import print_results
from sae.cli.study_options import DataOptions, StudyOptions, spread_groups

if TYPE_CHECKING:
    from sae.search.plan import SearchPlan
    from sae.search.run import Place


@spread_groups
def experiment(
    what: Annotated[str, typer.Argument(help="a data set's name, the path of your own data, or a YAML file")],
    *,
    budget: Annotated[
        str, typer.Option(help="small: about an hour on two cores; paper: the paper's settings")
    ] = "small",
    out: Annotated[Path | None, typer.Option(help="folder for the study; default: experiments/NAME-BUDGET")] = None,
    source: DataOptions,
    epochs: options.Epochs = None,
    trials: options.Trials = None,
    hours: options.Hours = None,
    seed: options.SearchSeed = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="any setting, e.g. confirm.seeds=2")] = None,
    study: StudyOptions,
) -> None:
    """Search, confirm on other seeds, test clean and shifted, ship and report; the same command again continues."""
    from sae.experiment.settings import experiment_layers
    from sae.search.plan import resolve_search

    flags = options.section(
        data=source.layer(),
        train=options.section(epochs=epochs),
        seed=seed,
        search=options.section(trials=trials, hours=hours),
    )
    plan = resolve_search(experiment_layers(what, budget, options.layers_over(flags, set_ or [])))
    folder = out or Path("experiments") / f"{Path(what).stem}-{budget}"
    carry_out(study.place(folder), plan, json=study.json)


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


def carry_out(place: "Place", plan: "SearchPlan", *, json: bool) -> None:
    """Run an experiment and print its results."""
    from sae.cli.output import print_line, print_message
    from sae.cli.results import print_receipt
    from sae.experiment.run import run_experiment
    from sae.records.study import StudyRecord

    receipt = run_experiment(place, plan, print_message)
    model = str(place.out / StudyRecord.SHIPPED / StudyRecord.MODEL)
    report = str(place.out / StudyRecord.REPORT)
    print_results(place.out, json=json, more={"receipt": receipt.to_json(), "model": model, "report": report})
    if not json:
        print_receipt(model, receipt)
        print_line(f"model:          {model}")
        print_line(f"report:         {report}")
