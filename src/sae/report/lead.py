"""What a person wants first: which network to ship, what it costs beside the others, and how to ship it."""

import math
import shlex
from collections.abc import Mapping, Sequence

from sae.analysis.results import Result, Where
from sae.objectives import METRICS
from sae.report.commands import train_command
from sae.report.content import Cell, Column, Lead, Table, show
from sae.report.findings import COSTS, ROLES, Findings
from sae.report.metric_names import metric_column, name_of
from sae.report.tables import spread_cell

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
BETTER, WORSE, ALIKE = "better", "worse", "not told apart"
APART = 2.0
"""Standard errors by which two means must differ to be told apart."""


def study_lead(found: Findings) -> Lead:
    """The recommendation of a study; of one without results, what is missing."""
    if found.pick is None:
        again = (f"sae search … --out {shlex.quote(str(found.record.path))}", "Continue the search.")
        missing = f"{found.missing[:1].upper()}{found.missing[1:]}."
        return Lead("Nothing can be recommended yet.", (missing,), None, (again,))
    pick = found.shown["pick"]
    rivals = {role: item for role, item in found.shown.items() if role != "pick"}
    claims = [claim(pick, item, role, found.metrics, found.task) for role, item in rivals.items()]
    sentence = f"Ship {pick.label}, {describe(pick)}{f': {claims[0]}' if claims else ''}."
    others = tuple(f"It is {text}." for text in claims[1:])
    reasons = (*others, f"Chosen on validation: {found.why}.", *caveats(found))
    return Lead(sentence, reasons, receipt_table(found), ship_commands(found))


def describe(result: Result) -> str:
    """A configuration in a few words, `one network with early exits (N=1 K=5 W=1) read at 1 exit`."""
    name = WORDS[result.kind]
    if result.method != "sae":
        return f"{name} ({result.settings})"
    return f"{name} ({result.settings}) read at {result.eval_exits} {'exit' if result.eval_exits == 1 else 'exits'}"


def claim(pick: Result, rival: Result, role: str, metrics: Sequence[str], task: str) -> str:
    """What the test split says of the pick beside a rival, and the ratio of their FLOPs.

    For example: `not told apart from the best deep ensemble in F1, CC-ECE and NLL, at 1/21.6 of its FLOPs`.
    """
    shared = [name for name in metrics if name in pick.test and name in rival.test]
    verdicts = {name: verdict(pick, rival, name, METRICS[task][name].maximise) for name in shared}
    groups = {word: [name_of(name) for name in shared if verdicts[name] == word] for word in (BETTER, WORSE, ALIKE)}
    words = {BETTER: "better than", WORSE: "worse than", ALIKE: "not told apart from"}
    parts = [f"{words[word]} {RIVALS[role]} in {_listed(names)}" for word, names in groups.items() if names]
    parts[1:] = [part.replace(f" {RIVALS[role]}", " it") for part in parts[1:]]
    ratio = pick.costs["flops"].mean / rival.costs["flops"].mean
    times = f"at 1/{1 / ratio:.3g} of" if ratio < 1 else f"at {ratio:.3g} times"
    if not parts:
        return f"{times} the FLOPs of {RIVALS[role]}; no metric is known of both"
    if min(len(pick.runs), len(rival.runs)) < 2:
        return f"{times} the FLOPs of {RIVALS[role]}; one seed tells nothing of which is better"
    return f"{_listed(parts)}, {times} its FLOPs"


def verdict(one: Result, other: Result, metric: str, maximise: bool) -> str:
    """Whether the means of two over seeds are told apart by two standard errors; single seeds never are."""
    mean, rival = one.test[metric], other.test[metric]
    if mean.std is None or rival.std is None:
        return ALIKE
    error = math.sqrt(mean.std**2 / len(one.runs) + rival.std**2 / len(other.runs))
    gain = (mean.mean - rival.mean) * (1 if maximise else -1)
    return ALIKE if abs(gain) <= APART * error else BETTER if gain > 0 else WORSE


def caveats(found: Findings) -> tuple[str, ...]:
    """What a reader has to know before believing the numbers."""
    seeds = {len(item.runs) for item in found.shown.values()}
    told = []
    if not found.results:
        told.append("Nothing was confirmed on other seeds: numbers are of the one seed that the search chose by.")
    else:
        few = " Some of those compared have one seed only and cannot be told apart." if 1 in seeds else ""
        told.append(
            f"Test numbers are means ± standard deviations over seeds that the search never saw; two are told apart "
            f"where they differ by more than {APART:g} standard errors.{few}"
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
    folder = shlex.quote(str(found.record.path))
    return (
        (f"sae export {folder} --out shipped/model.onnx", "Ship it: an ONNX file, its manifest and its receipt."),
        ("sae predict shipped/model.onnx DATA --out predictions.csv", "Predict from the file alone, without torch."),
        (train_command(found.shown["pick"].config), "Train it again, anywhere."),
    )


def _listed(words: Sequence[str]) -> str:
    """Words as people list them.

    Example:
        >>> _listed(["F1"]), _listed(["F1", "NLL", "MSE"])
        ('F1', 'F1, NLL and MSE')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
