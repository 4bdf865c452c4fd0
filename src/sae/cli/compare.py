"""`sae compare`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sae.cli import options

if TYPE_CHECKING:
    from sae.analysis.bootstrap import Difference
    from sae.analysis.contestants import Contestant
    from sae.analysis.ensemble_equivalent import EnsembleEquivalent
    from sae.analysis.gap import GapShare
    from sae.core.table import Table

COMPARED_METRICS = {
    "classification": (
        *("nll", "nll_scaled", "accuracy", "brier"),
        *("ece", "ece_scaled", "cc_ece", "cc_ece_scaled"),
    ),
    "regression": ("nll", "nll_scaled", "rmse", "mae"),
}
"""What is compared by default, for each task."""
FEW_SEEDS = {
    1: "with a single seed the intervals cover the choice of the test samples only: train more seeds",
    2: "with two seeds the intervals are wide: a third makes them much narrower",
}
"""What is said of a side with so many seeds."""


def compare(
    runs: Annotated[list[Path], typer.Argument(help="runs of one configuration, or a folder of them")],
    *,
    others: Annotated[
        list[Path],
        typer.Option("--with", help="a run of the other configuration, or a folder of them; may be repeated"),
    ],
    metrics: Annotated[
        str | None,
        typer.Option(
            help="metrics to compare, e.g. nll,nll_scaled: after temperature scaling on validation, which may "
            "harm under shift (see sae evaluate RUN --shift)"
        ),
    ] = None,
    margin: Annotated[
        float | None, typer.Option(min=0, help="say whether the first is worse by less than this, in each metric")
    ] = None,
    eval_exits: options.EvalExits = None,
    with_exits: Annotated[
        int | None, typer.Option(help="K′ of the runs of --with; by default the best on validation")
    ] = None,
    ensemble: Annotated[
        list[Path] | None,
        typer.Option(
            help="runs of a deep ensemble: how many of its members are worth as much? By default those of --with"
        ),
    ] = None,
    single: Annotated[
        list[Path] | None,
        typer.Option(
            help="runs of one network like the members of the ensemble: which share of the gap between it and the "
            "ensemble does the first close?"
        ),
    ] = None,
    resamples: Annotated[int, typer.Option(min=100, help="resamples of the bootstrap")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="seed of the resamples")] = 0,
    json: options.Json = False,
) -> None:
    """Compare two configurations on the same test samples, with 95 % intervals of their differences.

    The runs of a configuration differ in nothing but their seed, and have kept their predictions (`sae train
    --keep-predictions`, or later `sae evaluate RUN --keep-predictions`).
    """
    from sae.analysis.bootstrap import compare_samples
    from sae.analysis.contestants import read_contestant
    from sae.analysis.ensemble_equivalent import ensemble_equivalent
    from sae.analysis.gap import gap_shares
    from sae.cli.output import print_json, print_message, print_table, print_text, say_exits
    from sae.core.errors import ConfigError

    one, other = read_contestant(runs, eval_exits), read_contestant(others, with_exits)
    names = options.names("--metrics", metrics) or list(COMPARED_METRICS[one.task])
    found = compare_samples(one, other, names, resamples, seed)
    rival = read_contestant(ensemble) if ensemble else other if other.has_members else None
    worth = ensemble_equivalent(one, rival, resamples, seed) if rival else None
    alone = read_contestant(single) if single else None
    if alone is not None and rival is None:
        raise ConfigError("--single needs a deep ensemble: name its runs with --with or --ensemble")
    shares = gap_shares(alone, one, rival, resamples=resamples, seed=seed) if alone and rival else {}
    for side, given in ((one, eval_exits), (other, with_exits)):
        if given is None:
            say_exits(side.name, side.eval_exits[0], len(side.runs[0].test.readings))
    if json:
        gaps = {name: share and asdict(share) for name, share in shares.items()}
        print_json({**as_json(one, other, found, margin, worth), **({"gap_shares": gaps} if shares else {})})
        return
    print_table(differences_table(one, other, found, margin))
    if worth is not None and rival is not None:
        print_text(described(one.name, worth))
    for name, share in shares.items():
        print_text(gap_sentence(one.name, name, share))
    fewest = min(len(one.runs), len(other.runs))
    if fewest in FEW_SEEDS:
        print_message(FEW_SEEDS[fewest])


def differences_table(
    one: "Contestant", other: "Contestant", found: list["Difference"], margin: float | None
) -> "Table":
    """Return a row for each metric: both means, their difference with its interval, and the verdict."""
    from sae.cli.output import metric_name
    from sae.core.table import text_table

    rows = []
    for item in found:
        interval = f"{item.low:+.4f} to {item.high:+.4f}"
        row = [metric_name(item.metric), f"{item.one:.4f}", f"{item.other:.4f}", f"{item.value:+.4f}", interval]
        rows.append([*row, item.verdict, *([] if margin is None else ["yes" if item.matches(margin) else "no"])])
    matches = [] if margin is None else [f"matches (margin {margin:g})"]
    heading = f"{one.name} against {other.name}: {len(one.runs)} and {len(other.runs)} seeds"
    samples = f"{len(one.runs[0].test.targets):,} test samples"
    columns = ["", "first", "second", "difference", "95 % interval", "the first is", *matches]
    return text_table(f"{heading}, {samples}", columns, rows)


def described(name: str, worth: "EnsembleEquivalent") -> str:
    """Say how many members of a deep ensemble have the scaled NLL of a configuration, with the interval."""
    curve = ", ".join(f"{value:.4f}" for value in worth.curve)
    basis = f"1 to {worth.most} members have {curve}"
    if worth.is_open:
        return (
            f"There is not enough evidence to tell how many members of the deep ensemble have the scaled NLL of {name} "
            f"({basis})."
        )
    words = {"<1": "less than 1", f">{worth.most}": f"more than {worth.most}"}
    low, high = (words.get(text, text) for text in map(worth.describe, (worth.low, worth.high)))
    return (
        f"{name} has the scaled NLL of {worth.in_words} of the deep ensemble (95 % interval: {low} to {high}; {basis})."
    )


def gap_sentence(name: str, metric: str, share: "GapShare | None") -> str:
    """Say which share of the gap in a metric a network closes."""
    from sae.cli.output import metric_name

    if share is None:
        return f"{metric_name(metric)}: no significant gap between the single network and the ensemble."
    return f"{metric_name(metric)}: {name} closes {share} of the gap between the single network and the ensemble."


def as_json(
    one: "Contestant",
    other: "Contestant",
    found: list["Difference"],
    margin: float | None,
    worth: "EnsembleEquivalent | None",
) -> dict[str, object]:
    """Return everything that the table shows."""
    sides = {
        key: {"runs": side.name, "seeds": list(side.seeds), "eval_exits": list(side.eval_exits)}
        for key, side in (("first", one), ("second", other))
    }
    rows = {
        item.metric: {
            "first": item.one,
            "second": item.other,
            "difference": item.value,
            "low": item.low,
            "high": item.high,
            "verdict": item.verdict,
            **({} if margin is None else {"matches": item.matches(margin)}),
        }
        for item in found
    }
    equivalent = worth and {
        "members": worth.exact(worth.members),
        "low": worth.exact(worth.low),
        "high": worth.exact(worth.high),
        "nll_scaled": list(worth.curve),
    }
    samples = len(one.runs[0].test.targets)
    return {**sides, "samples": samples, "margin": margin, "metrics": rows, "ensemble_equivalent": equivalent}
