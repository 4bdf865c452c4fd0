"""`sae evaluate`."""

from typing import Annotated, Literal

import typer

from sae.cli import options


def evaluate(
    run: options.Run,
    split: Annotated[Literal["val", "test"], typer.Option(help="which samples")] = "test",
    eval_exits: Annotated[int | None, typer.Option(help="K′, exits kept per input; by default the trained K")] = None,
    data_root: options.DataRoot = None,
    json: options.Json = False,
) -> None:
    """Evaluate a finished run from its weights, at every number of exits: K is free."""
    from sae.cli.output import print_evaluation, print_json
    from sae.data.locations import choose_data_root
    from sae.training.run import evaluate as evaluate_run

    choose_data_root(data_root)
    report = evaluate_run(run, split, eval_exits)
    (print_json if json else print_evaluation)(report)
