"""The commands that make a study: `sae search`, `sae experiment` and `sae demo`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sae.cli import options
from sae.cli.backbone import say_preparation, with_backbone
from sae.cli.results import print_results
from sae.core.collection import import_for_good
from sae.core.errors import require

if TYPE_CHECKING:
    from sae.search.executors import Executor
    from sae.search.run import Place, SearchPlan


@dataclass(frozen=True)
class StudyOptions:
    """Options about where trials run, where they are stored, and how results are printed."""

    workers: options.Workers = None
    executor: options.Executor = "local"
    address: options.Address = None
    cpus_per_trial: options.CpusPerTrial = 1.0
    gpus_per_trial: options.GpusPerTrial = 0.0
    partition: options.Partition = None
    array_max: options.ArrayMax = None
    storage: options.Storage = None
    force: options.StudyForce = False
    trust_code: options.TrustCode = False
    json: options.Json = False

    def place(self, out: Path, plan: "SearchPlan") -> "Place":
        """Return where the study is done; starts or joins a Ray cluster if that was asked for."""
        from sae.search.run import Place

        return Place(out, make_executor(self, out, plan.settings.workers), self.storage, self.force)


def make_executor(given: StudyOptions, out: Path, planned: int | None = None) -> "Executor":
    """Return the executor that was asked for; refuse options that would have no effect on it.

    Args:
        given: The options.
        out: The study folder.
        planned: How many trials the settings of the search run at once, unless an option says otherwise.
    """
    from sae.core.errors import ConfigError

    if given.address is not None and given.executor != "ray":
        raise ConfigError("--address needs --executor ray: it is the address of a Ray cluster")
    for flag, value in (("--partition", given.partition), ("--array-max", given.array_max)):
        if value is not None and given.executor != "slurm":
            raise ConfigError(f"{flag} needs --executor slurm: it is about a SLURM cluster")
    if given.executor == "ray":
        from sae.search.executors.ray import RayExecutor

        return RayExecutor(given.address, given.workers or planned, given.cpus_per_trial, given.gpus_per_trial)
    if given.executor == "slurm":
        return _slurm_executor(given, out, planned)
    from sae.search.executors.local import LocalExecutor

    return LocalExecutor(given.workers or planned or options.num_cores())


def _slurm_executor(given: StudyOptions, out: Path, planned: int | None) -> "Executor":
    from sae.core.errors import ConfigError
    from sae.records.study import StudyRecord
    from sae.search.executors.slurm import DEFAULT_ARRAY, SlurmExecutor

    if given.workers is not None:
        raise ConfigError("--workers is not for --executor slurm: --array-max says how many trials run at once")
    per_trial = {"--cpus-per-trial": given.cpus_per_trial, "--gpus-per-trial": given.gpus_per_trial}
    for flag, number in per_trial.items():
        if number != int(number) or number < 0:
            raise ConfigError(f"{flag} must be a whole number with --executor slurm, got {number:g}")
    cpus, gpus = map(int, per_trial.values())
    array_max = given.array_max or planned or DEFAULT_ARRAY
    return SlurmExecutor(out / StudyRecord.SLURM, array_max, given.partition, max(1, cpus), gpus)


@options.spread_groups
def search(
    out: Annotated[Path, typer.Option(help="folder for the study; the same command again continues it")],
    *,
    data: Annotated[str | None, typer.Option(help="a name from `sae data list`, or the path of your own data")] = None,
    source: options.DataOptions,
    network: options.BackboneOptions,
    method: Annotated[
        str | None, typer.Option(help=f"methods to search, separated by commas ({options.METHOD_HELP}); default: sae")
    ] = None,
    objectives: Annotated[
        str | None,
        typer.Option(
            help="metrics and costs, e.g. nll,f1,flops or nll@shift; default: nll,cc_ece,flops "
            "(regression: nll,mse,flops)"
        ),
    ] = None,
    max_: options.Maximum = None,
    min_: options.Minimum = None,
    trials: options.Trials = None,
    hours: options.Hours = None,
    sampler: Annotated[
        str | None,
        typer.Option(help="gp, scalarized, tpe, nsga2, random or grid; default: gp, or scalarized above 3 objectives"),
    ] = None,
    startup: Annotated[
        int | None,
        typer.Option(min=1, help="random trials before the sampler's model is used; default: a quarter, at most 50"),
    ] = None,
    grid: Annotated[
        int | None,
        typer.Option(min=1, help="try every configuration of a finite space up to this size; default: {search.grid}"),
    ] = None,
    k_free: Annotated[bool, typer.Option("--k-free", help="with --sampler grid: train only the largest K")] = False,
    stop_early: Annotated[
        bool, typer.Option("--stop-early", help="stop trials that are behind at 1/9 and 1/3 of the epochs")
    ] = False,
    shift: Annotated[
        bool,
        typer.Option(
            "--shift", help="also find the front under shift: evaluate trials on corrupted validation and test sets"
        ),
    ] = False,
    shift_sets: Annotated[
        str | None, typer.Option(help="corrupted validation sets that choose under shift: all (95) or few (8)")
    ] = None,
    confirm: Annotated[
        int | None, typer.Option(min=0, help="train the front again on this many other seeds; default: {confirm.seeds}")
    ] = None,
    confirm_most: Annotated[
        int | None, typer.Option(min=1, help="confirm at most this many configurations of the front; default: all")
    ] = None,
    confirm_each: Annotated[
        int | None,
        typer.Option(
            min=0, help="also confirm this many of the best of each class of methods; default: {confirm.each}"
        ),
    ] = None,
    confirm_shifted: Annotated[
        int | None,
        typer.Option(min=0, help="confirm at most this many of the front under shift; default: as for the clean front"),
    ] = None,
    epochs: options.Epochs = None,
    seed: options.SearchSeed = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML file: settings of a run with holes; flags override it")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="any setting or hole, e.g. 'backbone.width={choice: [1, 4]}'")
    ] = None,
    study: StudyOptions,
) -> None:
    """Search for the best configurations within a budget; writes a study folder."""
    import_for_good("torch")
    from sae.cli.output import print_message
    from sae.config.settings import read_yaml
    from sae.search.run import resolve_search, run_study

    flags = options.section(
        data=source.layer(data),
        backbone=network.layer(),
        train=options.section(epochs=epochs),
        seed=seed,
        search=options.section(
            methods=options.names("--method", method),
            objectives=options.names("--objectives", objectives),
            max=options.bounds("--max", max_),
            min=options.bounds("--min", min_),
            trials=trials,
            hours=hours,
            sampler=sampler,
            startup=startup,
            grid=grid,
            k_free=k_free or None,
            stop_early=stop_early or None,
            shift=shift or None,
            shift_sets=shift_sets,
        ),
        confirm=options.section(
            seeds=confirm,
            most=confirm_most,
            each=confirm_each,
            shifted=options.section(most=confirm_shifted),
        ),
    )
    layers = [*([read_yaml(config)] if config else []), *options.layers_over(flags, set_ or [])]
    plan = resolve_search(with_backbone([*layers, *options.task_layers(layers)]))
    say_preparation(plan.data)
    run_study(study.place(out, plan), plan, print_message)
    print_results(out, json=study.json)


@options.spread_groups
def experiment(
    what: Annotated[str, typer.Argument(help="a data set's name, the path of your own data, or a YAML file")],
    *,
    budget: Annotated[
        str, typer.Option(help="small: one to two hours on two cores; paper: the paper's settings")
    ] = "small",
    recipe: Annotated[
        str | None,
        typer.Option(
            help="tuned: the learning rate is searched for every method; paper: one for all; default: by budget"
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="folder for the study; default: experiments/NAME-BUDGET")] = None,
    source: options.DataOptions,
    network: options.BackboneOptions,
    max_: options.Maximum = None,
    min_: options.Minimum = None,
    epochs: options.Epochs = None,
    trials: options.BudgetTrials = None,
    hours: options.Hours = None,
    seed: options.SearchSeed = None,
    distill: Annotated[
        bool, typer.Option("--distill", help="also train the pick and a standard network with the best ensemble")
    ] = False,
    set_: Annotated[list[str] | None, typer.Option("--set", help="any setting, e.g. confirm.seeds=2")] = None,
    study: StudyOptions,
) -> None:
    """Search, confirm on other seeds, test clean and shifted, ship and report; the same command again continues."""
    require("torch", "this command")
    import_for_good("torch")
    from sae.experiment import experiment_layers
    from sae.search.run import resolve_search

    flags = options.section(
        data=source.layer(),
        backbone=network.layer(),
        train=options.section(epochs=epochs),
        seed=seed,
        search=options.section(
            max=options.bounds("--max", max_), min=options.bounds("--min", min_), trials=trials, hours=hours
        ),
        confirm=options.section(distill=distill or None),
    )
    over = options.layers_over(flags, set_ or [])
    layers = experiment_layers(what, budget, [*over, *options.task_layers([{"data": {"name": what}}, *over])], recipe)
    plan = resolve_search(with_backbone(layers))
    folder = out or Path("experiments") / f"{Path(what).stem}-{budget}"
    say_preparation(plan.data)
    carry_out(study.place(folder, plan), plan, json=study.json)


def demo(
    out: Annotated[Path, typer.Option(help="folder for the study")] = Path("runs/demo"),
    force: options.StudyForce = False,
    epochs: options.Epochs = None,
    trials: Annotated[int | None, typer.Option(min=1, help="trials of SAE")] = None,
    workers: options.Workers = None,
    json: options.Json = False,
) -> None:
    """Run a small experiment on digits: search SAE and the baselines, confirm, pick, ship and report."""
    require("torch", "this command")
    import_for_good("torch")
    from sae.experiment import read_preset
    from sae.search.executors.local import LocalExecutor
    from sae.search.run import Place, resolve_search

    flags = options.section(train=options.section(epochs=epochs), search=options.section(trials=trials))
    plan = resolve_search([read_preset("demo"), flags])
    executor = LocalExecutor(workers or options.num_cores())
    carry_out(Place(out, executor, force=force), plan, json=json)


def carry_out(place: "Place", plan: "SearchPlan", *, json: bool) -> None:
    """Run an experiment and print its results."""
    from sae.cli.output import print_line, print_message
    from sae.cli.receipt import print_receipt
    from sae.experiment import run_experiment
    from sae.records.study import StudyRecord

    receipt = run_experiment(place, plan, print_message)
    model = str(place.out / StudyRecord.SHIPPED / StudyRecord.MODEL)
    report = str(place.out / StudyRecord.REPORT)
    print_results(place.out, json=json, more={"receipt": receipt.to_json(), "model": model, "report": report})
    if not json:
        print_receipt(model, receipt, StudyRecord.open(place.out).target)
        print_line(f"model:          {model}")
        print_line(f"report:         {report}")
