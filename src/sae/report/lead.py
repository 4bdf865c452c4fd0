"""Lead of a report: which network to ship, its receipt, and the commands to ship it."""

import shlex
from collections.abc import Sequence

from sae.analysis.comparison import ALIKE, BETTER, LEVEL, WORSE, compare
from sae.analysis.results import Result, Where
from sae.core.objectives import objective
from sae.core.table import Cell, Column, Table, show
from sae.core.wording import count, listed
from sae.report.commands import train_command
from sae.report.content import Lead
from sae.report.findings import COSTS, ROLES, Findings
from sae.report.labels import metric_column, name_of
from sae.report.tables import number_cell, spread_cell

RIVALS = {"ensemble": "the best deep ensemble", "standard": "the best standard network"}
WORDS = {
    "standard": "a standard network",
    "ensemble": "a deep ensemble",
    "mc_dropout": "MC dropout",
    "batch_ensemble": "BatchEnsemble",
    "I/B": "a single architecture ensemble between the known ones",
    "EE": "one network with early exits",
    "MIMMO": "one network of several inputs and all exits",
    "MIMO": "one network of several inputs",
    "SE": "one network that chose its exit",
}
"""What the classes of methods are, for somebody who has not read the paper."""
PLACES: tuple[Where, ...] = ("test", "shift")
BOTH = ", clean and under corruption"
THAN = {BETTER: "better than", WORSE: "worse than", ALIKE: "not told apart from"}


def study_lead(found: Findings) -> Lead:
    """The recommendation of a study; of one without results, what is missing."""
    if found.pick is None:
        folder = shlex.quote(str(found.record.path))
        again = (f"sae search … --out {folder}", "Continue the search.")
        if found.candidates:  # and yet none of them can be chosen
            again = (f"sae pareto {folder} --max NAME=NUMBER", "See what there is within other limits.")
        missing = f"{found.missing[:1].upper()}{found.missing[1:]}."
        return Lead("Nothing can be recommended yet.", (missing,), None, (again,))
    first, *others = [*claims(found), ""]
    sentence = f"Ship {found.shown['pick'].label}, {describe(found.shown['pick'])}{first and f': {first}'}."
    reasons = (*(f"It is {text}." for text in others if text), *stronger(found), f"Chosen on validation: {found.why}.")
    return Lead(f"{sentence}{cheaper(found)}", (*reasons, *caveats(found)), receipt_table(found), ship_commands(found))


def describe(result: Result) -> str:
    """A configuration in a few words, `one network with early exits (N=1 K=5 W=1) read at 1 exit`."""
    name = WORDS[result.kind]
    if result.method != "sae":
        return f"{name} ({result.settings})"
    return f"{name} ({result.settings}) read at {count(result.eval_exits, 'exit')}"


def claims(found: Findings) -> list[str]:
    """What can be said of the pick beside each rival, on the test split and, where it was measured, under shift.

    For example: `not told apart from the best deep ensemble in F1, CC-ECE and NLL, at 1/21.6 of its FLOPs`.
    """
    pick, told = found.shown["pick"], []
    for role, rival in found.shown.items():
        if role == "pick":
            continue
        name, times = (
            RIVALS[role],
            times_of(found.searched("pick").values["flops"] / found.searched(role).values["flops"]),
        )
        clean, shifted = (verdicts(pick, rival, name, found.metrics, found.task, where) for where in PLACES)
        if min(len(pick.runs), len(rival.runs)) < 2:
            told.append(f"{times} the FLOPs of {name}; one seed tells nothing of which is better")
        elif not clean:
            told.append(f"{times} the FLOPs of {name}; no metric is known of both")
        else:
            told.append(f"{clean}{BOTH if clean == shifted else ''}, {times} its FLOPs")
        told += [f"{shifted} under corruption"] if shifted not in ("", clean) else []
    return told


def cheaper(found: Findings) -> str:
    """A warning where a rival that costs less does not do worse in anything that was measured."""
    pick = found.shown["pick"]
    for role, rival in found.shown.items():
        ratio = found.searched(role).values["flops"] / found.searched("pick").values["flops"]
        results = [
            compare(pick, rival, objective(name, found.task), where) for name in found.metrics for where in PLACES
        ]
        if role != "pick" and ratio < 1 and BETTER not in results and min(len(pick.runs), len(rival.runs)) > 1:
            return f" But {RIVALS[role]}, {times_of(ratio)} its FLOPs, does not do worse in anything measured."
    return ""


def stronger(found: Findings) -> list[str]:
    """Confirmed rivals that are not the best on validation, and yet do better than the pick."""
    pick, told = found.shown["pick"], []
    shown = {(item.label, item.eval_exits) for item in found.shown.values()}
    for item in found.results:
        if item.method not in RIVALS or (item.label, item.eval_exits) in shown:
            continue
        for where, words in (("test", ""), ("shift", " under corruption")):
            verdicts = {name: _verdict(pick, item, name, found, where) for name in found.metrics}
            better = [name_of(name) for name, verdict in verdicts.items() if verdict == WORSE]
            told += [f"{item.label} ({item.settings}) is better than it in {listed(better)}{words}."] if better else []
    return told


def _flops_ratio(found: Findings, role: str) -> float:
    """How many times the pick's FLOPs somebody takes."""
    return found.searched(role).values["flops"] / found.searched("pick").values["flops"]


def _verdict(pick: Result, rival: Result, name: str, found: Findings, where: str) -> str:
    return compare(pick, rival, objective(name, found.task), "shift" if where == "shift" else "test")


def times_of(ratio: float) -> str:
    """A ratio in words.

    Example:
        >>> times_of(0.05), times_of(0.9)
        ('at 1/20 of', 'at 0.9 times')
    """
    return f"at 1/{1 / ratio:.3g} of" if ratio < 0.5 else f"at {ratio:.3g} times"


def verdicts(pick: Result, rival: Result, name: str, metrics: Sequence[str], task: str, where: Where = "test") -> str:
    """In what the pick is better, worse or not told apart, `worse than NAME in F1 and better than it in NLL`."""
    shared = [metric for metric in metrics if pick.get(metric, where) and rival.get(metric, where)]
    found = {metric: compare(pick, rival, objective(metric, task), where) for metric in shared}
    groups = {word: [name_of(metric) for metric in shared if found[metric] == word] for word in THAN}
    named = [(word, names) for word, names in groups.items() if names]
    parts = (f"{THAN[word]} {'it' if index else name} in {listed(names)}" for index, (word, names) in enumerate(named))
    return listed(list(parts))


def caveats(found: Findings) -> tuple[str, ...]:
    """What a reader has to know before believing the numbers."""
    own = [ROLES[role] for role, item in found.shown.items() if not any(item is other for other in found.results)]
    told = []
    if not found.results:
        told.append("Nothing was confirmed on other seeds: numbers are of the one seed that the search chose by.")
    else:
        told.append(
            f"Test numbers are means ± standard deviations over seeds that the search never saw. Two are told apart "
            f"where Welch's t-test gives p < {LEVEL:g}, metric by metric, so that of twenty that are alike one is told "
            f"apart by chance. Not told apart is not equal: few seeds hide small differences."
        )
        told += [f"Not confirmed, so of the search's own seed: {listed(own)}."] if own else []
    told += [
        f"{ROLES[role].capitalize()} failed on {item.failed} of {item.failed + len(item.runs)} seeds."
        for role, item in found.shown.items()
        if item.failed
    ]
    told += [f"Left out, damaged: {reason}." for reason in found.lost.values()]
    if found.receipt is None:
        told.append("Time was not measured: the pick has not been shipped from this study yet.")
    return tuple(told)


def ship_commands(found: Findings) -> tuple[tuple[str, str], ...]:
    """What to type next."""
    assert found.pick is not None, "what is shipped was picked"
    folder = shlex.quote(str(found.record.path))
    return (
        (f"sae export {folder} --out shipped/model.onnx", "Ship it: an ONNX file, its manifest and its receipt."),
        ("sae predict shipped/model.onnx DATA --out predictions.csv", "Predict from the file alone, without torch."),
        (train_command(found.pick.config), "Train it again, anywhere."),
    )


def receipt_table(found: Findings) -> Table:
    """A column for the pick and each rival, a row for each measure; costs also as multiples of the pick's.

    Metrics are over seeds. Costs, time and size are of the networks that were searched, which are the ones
    that are shipped: other seeds may choose other exits.
    """
    shown = found.shown
    is_shifted = all(item.shift for item in shown.values())
    rows = [
        ["configuration", *(f"{item.label}: {item.settings}{_read_at(item)}" for item in shown.values())],
        ["runs", *(_runs(item, found) for item in shown.values())],
        *(_metric_row(found, name, "test") for name in found.metrics),
        *(_metric_row(found, name, "shift") for name in found.metrics if is_shifted),
        *(_cost_row(found, name) for name in COSTS),
        *_shipped_rows(found),
    ]
    time = "; time in onnxruntime on one thread, measured side by side" if found.receipt else ""
    first = name_of(found.record.objectives[0].name)
    caption = (
        f"Metrics are of the test split, over seeds where there are several; costs are of the network to ship, in "
        f"brackets as multiples of the pick's{time}. Rivals are the best of their kind by {first} on validation."
    )
    columns = (Column("Measure"), *(Column(ROLES[role]) for role in shown))
    return Table("receipt", "Receipt", caption, columns, tuple(tuple(Cell(text) for text in row) for row in rows))


def _metric_row(found: Findings, name: str, where: Where) -> list[str]:
    cells = [spread_cell(item.get(name, where), name) for item in found.shown.values()]
    column = metric_column(name, found.task, _numbers(cells), under_shift=where == "shift")
    return [f"{column.title} {column.better}", *(show(cell, column) for cell in cells)]


def _cost_row(found: Findings, name: str) -> list[str]:
    cells = [number_cell(found.searched(role).values.get(name), name) for role in found.shown]
    column = metric_column(name, found.task, _numbers(cells))
    return [f"{column.title} {column.better}", *(f"{show(cell, column)}{_times(cell, cells[0])}" for cell in cells)]


def _shipped_rows(found: Findings) -> list[list[str]]:
    """What shipping has measured: milliseconds and the size of the file."""
    shipped = (found.receipt or {}).get("rows", {})
    if not found.receipt or any(role not in shipped for role in found.shown):
        return []
    rows = ((f"ms for {found.receipt['batch']} samples ↓", "ms", 1.0, 3), ("file, kB ↓", "bytes", 1e3, 0))
    return [
        [title, *(f"{value / unit:,.{digits}f}{_times(Cell(value), Cell(values[0]))}" for value in values)]
        for title, key, unit, digits in rows
        for values in [[shipped[role][key] for role in found.shown]]
    ]


def _numbers(cells: Sequence[Cell]) -> list[float]:
    return [cell.value for cell in cells if isinstance(cell.value, float | int)]


def _times(cell: Cell, first: Cell) -> str:
    """How many times the first; nothing for the first itself."""
    if not isinstance(cell.value, float | int) or not isinstance(first.value, float | int) or cell.value == first.value:
        return ""
    return f" ({cell.value / first.value:.3g} ×)"


def _runs(item: Result, found: Findings) -> str:
    if not any(item is other for other in found.results):
        return "the search's own"
    return f"{len(item.runs)} on other seeds"


def _read_at(item: Result) -> str:
    return f" K′={item.eval_exits}" if item.method == "sae" else ""
