"""What a person wants first: which network to ship, what it costs beside the others, and how to ship it."""

import shlex
from collections.abc import Mapping, Sequence

from sae.analysis.comparison import ALIKE, BETTER, LEVEL, WORSE, compare
from sae.analysis.results import Result, Where
from sae.objectives import objective
from sae.report.commands import train_command
from sae.report.content import Cell, Column, Lead, Table, show
from sae.report.findings import COSTS, ROLES, Findings
from sae.report.metric_names import metric_column, name_of
from sae.report.result_tables import spread_cell

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
THAN = {BETTER: "better than", WORSE: "worse than", ALIKE: "not told apart from"}


def study_lead(found: Findings) -> Lead:
    """The recommendation of a study; of one without results, what is missing."""
    if found.pick is None:
        again = (f"sae search … --out {shlex.quote(str(found.record.path))}", "Continue the search.")
        missing = f"{found.missing[:1].upper()}{found.missing[1:]}."
        return Lead("Nothing can be recommended yet.", (missing,), None, (again,))
    first, *others = [*claims(found), ""]
    sentence = f"Ship {found.shown['pick'].label}, {describe(found.shown['pick'])}{first and f': {first}'}."
    reasons = (*(f"It is {text}." for text in others if text), f"Chosen on validation: {found.why}.", *caveats(found))
    return Lead(sentence, reasons, receipt_table(found), ship_commands(found))


def describe(result: Result) -> str:
    """A configuration in a few words, `one network with early exits (N=1 K=5 W=1) read at 1 exit`."""
    name = WORDS[result.kind]
    if result.method != "sae":
        return f"{name} ({result.settings})"
    return f"{name} ({result.settings}) read at {result.eval_exits} {'exit' if result.eval_exits == 1 else 'exits'}"


def claims(found: Findings) -> list[str]:
    """What can be said of the pick beside each rival, on the test split and, where it was measured, under shift."""
    pick, told = found.shown["pick"], []
    for role, rival in found.shown.items():
        if role != "pick":
            told.append(claim(pick, rival, role, found.metrics, found.task))
            shifted = verdicts(pick, rival, RIVALS[role], found.metrics, found.task, "shift")
            told += [f"{shifted} under corruption"] if shifted else []
    return told


def claim(pick: Result, rival: Result, role: str, metrics: Sequence[str], task: str) -> str:
    """What the test split says of the pick beside a rival, and the ratio of their FLOPs.

    For example: `not told apart from the best deep ensemble in F1, CC-ECE and NLL, at 1/21.6 of its FLOPs`.
    """
    ratio = pick.costs["flops"].mean / rival.costs["flops"].mean
    times = f"at 1/{1 / ratio:.3g} of" if ratio < 0.5 else f"at {ratio:.3g} times"
    if min(len(pick.runs), len(rival.runs)) < 2:
        return f"{times} the FLOPs of {RIVALS[role]}; one seed tells nothing of which is better"
    told = verdicts(pick, rival, RIVALS[role], metrics, task)
    return f"{told}, {times} its FLOPs" if told else f"{times} the FLOPs of {RIVALS[role]}; no metric is known of both"


def verdicts(pick: Result, rival: Result, name: str, metrics: Sequence[str], task: str, where: Where = "test") -> str:
    """In what the pick is better, worse or not told apart, `worse than NAME in F1 and better than it in NLL`."""
    shared = [metric for metric in metrics if pick.get(metric, where) and rival.get(metric, where)]
    found = {metric: compare(pick, rival, objective(metric, task), where) for metric in shared}
    groups = {word: [name_of(metric) for metric in shared if found[metric] == word] for word in THAN}
    named = [(word, names) for word, names in groups.items() if names]
    parts = (f"{THAN[word]} {'it' if index else name} in {_listed(names)}" for index, (word, names) in enumerate(named))
    return _listed(list(parts))


def caveats(found: Findings) -> tuple[str, ...]:
    """What a reader has to know before believing the numbers."""
    seeds = {len(item.runs) for item in found.shown.values()}
    told = []
    if not found.results:
        told.append("Nothing was confirmed on other seeds: numbers are of the one seed that the search chose by.")
    else:
        few = " Some of those compared have one seed only and cannot be told apart." if 1 in seeds else ""
        told.append(
            f"Test numbers are means ± standard deviations over {max(seeds)} seeds that the search never saw; two are "
            f"told apart where Welch's t-test gives p < {LEVEL:g}.{few}"
        )
    told += [f"Left out, damaged: {reason}." for reason in found.lost.values()]
    if found.receipt is None:
        told.append("Time was not measured: the pick has not been shipped from this study yet.")
    return tuple(told)


def receipt_table(found: Findings) -> Table:
    """A column for the pick and each rival, a row for each measure; costs also as multiples of the pick's."""
    shown = found.shown
    shifted = all(item.shift for item in shown.values())
    rows = [
        ["configuration", *(f"{item.label}: {item.settings}{_read_at(item)}" for item in shown.values())],
        *(_measure(shown, name, "test", found.task) for name in found.metrics),
        *(_measure(shown, name, "shift", found.task) for name in found.metrics if shifted),
        *(_measure(shown, name, "test", found.task) for name in COSTS),
        *_shipped_rows(found),
    ]
    time = "; time in onnxruntime on one thread, measured side by side" if found.receipt else ""
    caption = f"On the test split, over seeds where there are several; in brackets: times the pick's{time}."
    columns = (Column("Measure"), *(Column(ROLES[role]) for role in shown))
    return Table("receipt", "Receipt", caption, columns, tuple(tuple(Cell(text) for text in row) for row in rows))


def _measure(shown: Mapping[str, Result], name: str, where: Where, task: str) -> list[str]:
    spreads = [item.get(name, where) for item in shown.values()]
    cells = [spread_cell(spread, name) for spread in spreads]
    values = [cell.value for cell in cells if isinstance(cell.value, float)]
    column = metric_column(name, task, values, under_shift=where == "shift")
    texts = [show(cell, column) for cell in cells]
    if name in COSTS:
        texts[1:] = [f"{text}{_times(cell, cells[0])}" for text, cell in zip(texts[1:], cells[1:], strict=True)]
    return [f"{column.title} {column.better}", *texts]


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


def _times(cell: Cell, first: Cell) -> str:
    """How many times the first; nothing for the first itself."""
    if not isinstance(cell.value, float | int) or not isinstance(first.value, float | int) or cell.value == first.value:
        return ""
    return f" ({cell.value / first.value:.3g} ×)"


def _read_at(item: Result) -> str:
    return f" K′={item.eval_exits}" if item.method == "sae" else ""


def ship_commands(found: Findings) -> tuple[tuple[str, str], ...]:
    """What to type next."""
    assert found.pick is not None, "what is shipped was picked"
    folder = shlex.quote(str(found.record.path))
    return (
        (f"sae export {folder} --out shipped/model.onnx", "Ship it: an ONNX file, its manifest and its receipt."),
        ("sae predict shipped/model.onnx DATA --out predictions.csv", "Predict from the file alone, without torch."),
        (train_command(found.pick.config), "Train it again, anywhere."),
    )


def _listed(words: Sequence[str]) -> str:
    """Words as people list them.

    Example:
        >>> _listed(["F1"]), _listed(["F1", "NLL", "MSE"])
        ('F1', 'F1, NLL and MSE')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
