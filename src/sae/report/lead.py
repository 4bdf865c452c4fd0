"""What a person wants first: which network to ship, what it costs beside the others, and how to ship it."""

import math
import shlex

from sae.analysis.results import Result
from sae.analysis.spread import Spread
from sae.objectives import METRICS
from sae.report.commands import train_command
from sae.report.content import Cell, Column, Lead, Table
from sae.report.findings import Findings
from sae.report.kinds import LOOKS
from sae.report.metric_names import better, name_of

ROLES = {"pick": "the pick", "ensemble": "best ensemble", "standard": "best standard network"}
RIVALS = {"ensemble": "the best deep ensemble", "standard": "the best standard network"}
APART = 2.0
"""Standard errors by which two means must differ to be told apart."""


def study_lead(found: Findings) -> Lead:
    """The recommendation of a study; of one without results, what is missing."""
    folder = shlex.quote(str(found.record.path))
    if found.pick is None:
        again = (f"sae search … --out {folder}", "Continue the search.")
        return Lead("Nothing can be recommended yet.", (f"{found.missing[:1].upper()}{found.missing[1:]}.",), None, (again,))
    pick, task = found.shown["pick"], found.record.config.task
    sentence = f"Ship {pick.label}: {describe(pick)}."
    compared = tuple(compare(pick, rival, role, found.metrics, task) for role, rival in _rivals(found))
    reasons = (f"Chosen on the validation split: {found.why}.", *compared, *caveats(found))
    return Lead(sentence, reasons, receipt_table(found), ship_commands(found))


def describe(result: Result) -> str:
    """A configuration in words."""
    name = LOOKS[result.kind].name.removeprefix("SAE: ")
    if result.method != "sae":
        return f"{name}, {result.settings}"
    inputs, used = _count(result.config.method.inputs, "input"), _count(result.eval_exits, "exit")  # type: ignore[union-attr]
    return f"one network with {inputs} that predicts at {used} of its {len(result.active)} ({name}, {result.settings})"


def compare(pick: Result, rival: Result, role: str, metrics: tuple[str, ...], task: str) -> str:
    """What is told apart on the test split, and how many times the rival costs."""
    words = [
        f"{name_of(name)} {_spread(pick.test[name])} {verdict(pick.test[name], rival.test[name], seeds_of(pick, rival), METRICS[task][name].maximise)} {_spread(rival.test[name])}"
        for name in metrics
        if name in pick.test and name in rival.test
    ]
    ratio = rival.costs["flops"].mean / pick.costs["flops"].mean
    times = f"{ratio:.1f} times the pick's FLOPs" if ratio >= 1 else f"1/{1 / ratio:.1f} of the pick's FLOPs"
    return f"Against {RIVALS[role]} ({rival.settings}), which takes {times}: {'; '.join(words)} (pick first)."


def verdict(pick: Spread, rival: Spread, seeds: tuple[int, int], maximise: bool) -> str:
    """Whether two means are told apart by two standard errors.

    Example:
        >>> verdict(Spread(0.84, 0.02), Spread(0.83, 0.01), (4, 4), maximise=True)
        'is not told apart from'
        >>> verdict(Spread(0.9, 0.01), Spread(0.8, 0.01), (4, 4), maximise=True)
        'is better than'
    """
    if pick.std is None or rival.std is None:
        return "beside (one seed, not told apart)"
    error = math.sqrt(pick.std**2 / seeds[0] + rival.std**2 / seeds[1])
    difference = (pick.mean - rival.mean) * (1 if maximise else -1)
    if abs(difference) <= APART * error:
        return "is not told apart from"
    return "is better than" if difference > 0 else "is worse than"


def caveats(found: Findings) -> tuple[str, ...]:
    """What a reader has to know before believing the numbers."""
    pick = found.shown["pick"]
    told = []
    if not found.results:
        told.append("Nothing was confirmed on other seeds: numbers are of the one seed that the search chose by.")
    elif len(pick.runs) > 1:
        told.append(f"Test numbers are mean ± standard deviation over {len(pick.runs)} seeds that the search never saw.")
    if found.receipt is None:
        told.append("Time was not measured: the pick has not been shipped from this study yet.")
    return tuple(told)


def receipt_table(found: Findings) -> Table:
    """A row for the pick and each rival: quality and calibration on test, clean and shifted, cost and time."""
    shown, task = found.shown, found.record.config.task
    shifted = all(item.shift for item in shown.values())
    rows_shipped = (found.receipt or {}).get("rows", {})
    timed = all(role in rows_shipped for role in shown)
    metrics = [Column(name_of(name), better(name, task), 3) for name in found.metrics]
    under_shift = [Column(f"{name_of(name)}, shifted", better(name, task), 3) for name in found.metrics] if shifted else []
    costs = [Column("MFLOPs", "↓", 3), Column("M params", "↓", 3)]
    times = [Column(f"ms for {(found.receipt or {}).get('batch')}", "↓", 3), Column("file, kB", "↓")] if timed else []
    rows = tuple(
        (
            Cell(ROLES[role]),
            Cell(f"{item.label} {item.settings}{_read_at(item)}"),
            *(_cell(item.test.get(name)) for name in found.metrics),
            *(_cell((item.shift or {}).get(name)) for name in found.metrics if shifted),
            *(_cell(item.costs.get(name), 1e-6) for name in ("flops", "params")),
            *((Cell(rows_shipped[role]["ms"]), Cell(rows_shipped[role]["bytes"] / 1e3)) if timed else ()),
        )
        for role, item in shown.items()
    )
    caption = "Test split; time in onnxruntime on one thread, measured side by side." if timed else "Test split."
    columns = (Column("network"), Column("configuration"), *metrics, *under_shift, *costs, *times)
    return Table("receipt", "Receipt", caption, columns, rows)


def ship_commands(found: Findings) -> tuple[tuple[str, str], ...]:
    """What to type next."""
    folder = shlex.quote(str(found.record.path))
    return (
        (f"sae export {folder} --out shipped/model.onnx", "Ship it: an ONNX file, with its manifest and its receipt."),
        ("sae predict shipped/model.onnx DATA --out predictions.csv", "Predict with the file alone; no torch is needed."),
        (train_command(found.shown["pick"].config), "Train it again, anywhere."),
    )


def seeds_of(one: Result, other: Result) -> tuple[int, int]:
    """How many runs each mean is over."""
    return len(one.runs), len(other.runs)


def _rivals(found: Findings) -> list[tuple[str, Result]]:
    return [(role, item) for role, item in found.shown.items() if role != "pick"]


def _read_at(item: Result) -> str:
    return f" K′={item.eval_exits}" if item.method == "sae" else ""


def _cell(spread: Spread | None, scale: float = 1.0) -> Cell:
    if spread is None:
        return Cell(None)
    return Cell(spread.mean * scale, None if spread.std is None else spread.std * scale)


def _spread(spread: Spread) -> str:
    return f"{spread.mean:.3f}" if spread.std is None else f"{spread.mean:.3f} ± {spread.std:.3f}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
