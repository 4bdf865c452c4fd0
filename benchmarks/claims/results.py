"""Results of the trainings: reduced to JSON, and the table of the paper's claims made from it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Literal

from pydantic import BaseModel

from benchmarks.claims.rows import SETS
from sae.analysis.bootstrap import compare_samples, draw_metrics
from sae.analysis.contestants import Contestant, read_contestant
from sae.analysis.gap import gap_shares
from sae.core.objectives import metrics_of
from sae.records.run import RunRecord

STORED = Path(__file__).parents[2] / "docs" / "reproduction" / "claims.json"
KEPT = ("f1", "accuracy", "nll", "nll_scaled", "cc_ece_uniform", "cc_ece", "ece", "mse")
"""Metrics that are stored by seed; the paper's CC-ECE is `cc_ece_uniform`."""
Verdict = Literal["holds", "does not hold", "cannot tell"]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper that compares two networks.

    Attributes:
        text: What the paper says.
        ours: The row of the SAE.
        rival: The row that it is compared with.
        metrics: The metrics that the sentence is about.
        margin: How much worse the SAE may be at most; None if it is claimed to be better.
    """

    text: str
    ours: str
    rival: str
    metrics: tuple[str, ...]
    margin: float | None = None


BEST = "EE is the best-performing method, with about half of the FLOPs of the closest BatchEnsemble"
CLOSE = "is within 1 % of the ensemble in F1 and CC-ECE, with about 1/1.5 of its FLOPs"
COMPARABLE = "MIMO is comparable to the ensemble in NLL, with marginally fewer FLOPs"
CLAIMS: dict[str, tuple[Claim, ...]] = {
    "pneumonia": (
        Claim(BEST, "ee-2", "batch-ensemble", ("f1", "cc_ece_uniform", "nll")),
        Claim(BEST, "ee-4", "batch-ensemble", ("f1", "cc_ece_uniform", "nll")),
        *(
            Claim(BEST, "ee-2", rival, ("f1", "cc_ece_uniform", "nll"))
            for rival in ("ensemble", "small-ensemble", "standard", "small-standard", "mc-dropout")
        ),
    ),
    "blood": (
        Claim(f"I/B {CLOSE}", "between", "ensemble-2-d4", ("f1", "cc_ece_uniform"), 0.01),
        Claim(f"MIMO {CLOSE}", "mimo", "ensemble-2-d4", ("f1", "cc_ece_uniform"), 0.01),
    ),
    "retina": (Claim(COMPARABLE, "mimo", "ensemble", ("nll",), 0.01),),
    "noise": tuple(
        Claim(
            "the text's noise on l/T is as good as the authors' noise on l",
            f"tempered-{end}",
            f"logits-{end}",
            ("nll",),
            0.01,
        )
        for end in ("0.01", "0.1", "1")
    ),
}


class Difference(BaseModel):
    """A difference of two rows on the same test samples, with its 95 % interval."""

    ours: str
    rival: str
    metric: str
    value: float
    low: float
    high: float
    seeds: int
    samples: int


class Trained(BaseModel):
    """A row: numbers by seed, and the share of the gap between a standard network and the ensemble that it closes.

    Attributes:
        seeds: The seeds that have finished.
        test: Metrics on test data, by name and seed.
        val: NLL on validation data, by seed.
        flops: FLOPs per sample of the pruned network, by seed, as the paper counts.
        params: Its parameters, by seed.
        gap: Share of the gap with its interval, by metric; None where the gap may be 0.
    """

    seeds: list[int]
    test: dict[str, list[float]]
    val: list[float]
    flops: list[int]
    params: list[int]
    gap: dict[str, tuple[float, float, float] | None] = {}


class Reduced(BaseModel):
    """The results of a set."""

    rows: dict[str, Trained]
    differences: list[Difference]


def read_results() -> dict[str, Reduced]:
    """Return what is stored, by set."""
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    return {name: Reduced.model_validate(item) for name, item in stored.items()}


def reduce(out: Path, name: str) -> None:
    """Store the results of a set: of every row that has finished two seeds or more."""
    setting = SETS[name]
    done = {row: [seed for seed in range(setting.seeds) if _is_done(out, name, row, seed)] for row in setting.rows}
    seeds = {row: own for row, own in done.items() if len(own) > 1}
    if not seeds:
        raise SystemExit(f"{name}: two seeds of a row must have finished, got {done}")
    sides = {
        row: read_contestant([out / name / f"{row}-{seed}" for seed in own], as_trained=True)
        for row, own in seeds.items()
    }
    rows = {row: _read(out, name, row, sides[row], own) for row, own in seeds.items()}
    for row, trained in rows.items():
        if {"standard", "ensemble"} <= rows.keys() and row not in ("standard", "ensemble"):
            shares = gap_shares(sides["standard"], sides[row], sides["ensemble"])
            trained.gap = {
                key: None if share is None else (share.share, share.low, share.high) for key, share in shares.items()
            }
    claims = [claim for claim in CLAIMS[name] if {claim.ours, claim.rival} <= rows.keys()]
    differences = [item for claim in claims for item in _compare(sides, claim)]
    results = {**read_results(), name: Reduced(rows=rows, differences=differences)}
    stored = {key: results[key].model_dump() for key in SETS if key in results}
    STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def _is_done(out: Path, name: str, row: str, seed: int) -> bool:
    return RunRecord(out / name / f"{row}-{seed}").has(RunRecord.PREDICTIONS)


def _read(out: Path, name: str, row: str, side: Contestant, seeds: Sequence[int]) -> Trained:
    found = [RunRecord.open(out / name / f"{row}-{seed}").read_evaluation() for seed in seeds]
    tested = [item.test.chosen for item in found]
    known = [key for key in KEPT if key in tested[0].metrics]
    test = draw_metrics(side, known, resamples=2)  # by today's temperatures, not those of the code that trained
    return Trained(
        seeds=list(seeds),
        test={key: test[key].points.tolist() for key in known},
        val=[item.val.metrics["nll"] for item in found],
        flops=[item.flops for item in tested],
        params=[item.params for item in tested],
    )


def _compare(sides: dict[str, Contestant], claim: Claim) -> list[Difference]:
    ours, rival = sides[claim.ours], sides[claim.rival]
    return [
        Difference(
            ours=claim.ours,
            rival=claim.rival,
            metric=item.metric,
            value=item.value,
            low=item.low,
            high=item.high,
            seeds=min(len(ours.runs), len(rival.runs)),
            samples=len(ours.runs[0].test.targets),
        )
        for item in compare_samples(ours, rival, claim.metrics)
    ]


def verdict(claim: Claim, difference: Difference, task: str) -> Verdict:
    """Say whether a claim holds at every value of the interval, at none, or whether that is not known."""
    lower = not metrics_of(task)[difference.metric].maximise
    best, worst = (difference.low, difference.high) if lower else (-difference.high, -difference.low)  # how much worse
    allowed = claim.margin or 0.0
    return "holds" if worst < allowed else "does not hold" if best > allowed else "cannot tell"


def claims_table() -> str:
    """Return the table: the claim, what was run, the difference with its interval, the cost, the verdict."""
    head = ["the paper's claim", "what we ran", "difference on test data, 95 %", "FLOPs", "verdict"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    said = ""
    for name, reduced in read_results().items():
        setting, task = (
            SETS[name],
            "regression" if "mse" in next(iter(reduced.rows.values())).test else "classification",
        )
        stored = {(item.ours, item.rival, item.metric): item for item in reduced.differences}
        for claim in (claim for claim in CLAIMS[name] if (claim.ours, claim.rival, claim.metrics[0]) in stored):
            found = [stored[claim.ours, claim.rival, metric] for metric in claim.metrics]
            ours, rival = (reduced.rows[row] for row in (claim.ours, claim.rival))
            ran = f"{setting.rows[claim.ours].title} − {setting.rows[claim.rival].title}"
            cells = [
                "" if claim.text == said else claim.text,
                f"{setting.title}: {ran}; {found[0].seeds} seeds, {found[0].samples:,} images",
                "; ".join(f"{item.metric} {item.value:+.4f} ({item.low:+.4f} to {item.high:+.4f})" for item in found),
                f"{mean(ours.flops) / mean(rival.flops):.2f} ×",
                "; ".join(f"{item.metric}: **{verdict(claim, item, task)}**" for item in found),
            ]
            lines.append(f"| {' | '.join(cells)} |")
            said = claim.text
    return "\n".join(lines)


def rows_table(name: str) -> str:
    """Return the table of all rows of a set: mean ± standard deviation over seeds, and costs."""
    reduced, setting = read_results()[name], SETS[name]
    metrics = list(next(iter(reduced.rows.values())).test)
    head = [setting.title, "seeds", *metrics, "share of the gap, NLL", "scaled", "MFLOPs", "M parameters"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, item in reduced.rows.items():
        shares = [item.gap.get(key) for key in ("nll", "nll_scaled")]
        cells = [
            setting.rows[row].title,
            str(len(item.seeds)),
            *(f"{mean(item.test[key]):.4f} ± {stdev(item.test[key]):.4f}" for key in metrics),
            *("" if share is None else "{:.0%} ({:.0%} to {:.0%})".format(*share) for share in shares),
            f"{mean(item.flops) / 1e6:.2f}",
            f"{mean(item.params) / 1e6:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def tables() -> dict[str, str]:
    """Return every table by the name in its comment."""
    return {"claims-of-the-paper": claims_table(), **{f"claims-{name}": rows_table(name) for name in read_results()}}
