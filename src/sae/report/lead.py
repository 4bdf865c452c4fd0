"""Lead of a report: which network to ship, how it compares, its receipt, and the commands to ship it."""

import shlex
from collections.abc import Sequence

from sae.analysis.candidates import Candidate
from sae.analysis.comparison import ALIKE, BETTER, LEVEL, WORSE, compare
from sae.analysis.exit_use import describe_network, read_at
from sae.analysis.results import Result, Tested
from sae.config.methods import rivals
from sae.core.objectives import metric_label, objective
from sae.core.table import Cell, Column, Table, show
from sae.core.wording import count, listed
from sae.records.receipt import PICK
from sae.report.commands import train_command
from sae.report.content import Command, Lead
from sae.report.findings import Findings, role_label
from sae.report.labels import SHOWN_COSTS, metric_column
from sae.report.tables import number_cell, spread_cell

COMPARED_ON: tuple[Tested, ...] = ("test", "shift")


def study_lead(found: Findings) -> Lead:
    """Write the recommendation of a study, or what is missing for one."""
    if found.pick is None:
        return _empty_lead(found)
    pick = found.shown[PICK]
    first, *others = [*claims(found), ""]
    sentence = " ".join(
        filter(
            None,
            [
                f"Ship {pick.label}: {describe_network(found.pick.config, found.pick.active)}.",
                first,
                cheaper_rival(found),
            ],
        )
    )
    reasons = (*filter(None, others), *stronger_rivals(found), f"Chosen on validation: {found.why}.", *caveats(found))
    return Lead(sentence, reasons, receipt_table(found), ship_commands(found))


def _empty_lead(found: Findings) -> Lead:
    folder = shlex.quote(str(found.record.path))
    again = Command(f"sae search … --out {folder}", "Continue the search.")
    if found.candidates:  # but none of them can be chosen
        again = Command(f"sae pareto {folder} --max NAME=NUMBER", "See the Pareto front within other limits.")
    missing = f"{found.missing[:1].upper()}{found.missing[1:]}."
    return Lead("Nothing can be recommended yet.", (missing,), None, (again,))


def claims(found: Findings) -> list[str]:
    """Compare the pick with each rival, on the test split and, where measured, under corruption.

    For example: `It shows no significant difference from the best deep ensemble in F1 and NLL (4 seeds), and needs
    1/21.6 of its FLOPs.`
    """
    pick, told = found.shown[PICK], []
    for role, rival in found.shown.items():
        if role == PICK:
            continue
        name, ratio = f"the {role_label(role, found.shown[role])}", 1 / _flops_ratio(found, role)
        clean, shifted = (verdicts(pick, rival, name, found.metrics, found.task, where) for where in COMPARED_ON)
        if min(len(pick.runs), len(rival.runs)) < 2:
            told.append(f"It {_needs_text(ratio, name)}; one seed is too few to tell which is better.")
        elif not clean:
            told.append(f"It {_needs_text(ratio, name)}; no metric is known for both.")
        else:
            both = ", on clean and on corrupted images" if clean == shifted else ""
            told.append(f"It {clean}{both} ({_seeds_text(pick, rival)}), and {_needs_text(ratio)}.")
        told += [f"Under corruption it {shifted}."] if shifted not in ("", clean) else []
    return told


def _seeds_text(pick: Result, rival: Result) -> str:
    own, other = len(pick.runs), len(rival.runs)
    return count(own, "seed") if own == other else f"{own} and {other} seeds"


def verdicts(pick: Result, rival: Result, name: str, metrics: Sequence[str], task: str, where: Tested = "test") -> str:
    """Return in which metrics the pick is better, worse or not significantly different.

    For example: `is better than NAME in F1 and worse in NLL, with no significant difference in CC-ECE`.
    """
    shared = [metric for metric in metrics if pick.get(metric, where) and rival.get(metric, where)]
    found = {metric: compare(pick, rival, objective(metric, task), where) for metric in shared}
    better, worse, alike = (
        listed([metric_label(metric) for metric in shared if found[metric] == verdict])
        for verdict in (BETTER, WORSE, ALIKE)
    )
    if not better and not worse:
        return f"shows no significant difference from {name} in {alike}" if alike else ""
    first, second = ("better", worse) if better else ("worse", "")
    clause = f"is {first} than {name} in {better or worse}" + (f" and worse in {second}" if second else "")
    return clause + (f", with no significant difference in {alike}" if alike else "")


def cheaper_rival(found: Findings) -> str:
    """Return a warning if a rival costs less and is not significantly worse in any metric."""
    pick = found.shown[PICK]
    for role, rival in found.shown.items():
        results = [
            compare(pick, rival, objective(name, found.task), where) for name in found.metrics for where in COMPARED_ON
        ]
        ratio = _flops_ratio(found, role)
        if role != PICK and ratio < 1 and BETTER not in results and min(len(pick.runs), len(rival.runs)) > 1:
            return (
                f"But the {role_label(role, found.shown[role])} needs only {ratio_text(ratio)} its FLOPs and is not "
                "significantly worse in any metric."
            )
    return ""


def stronger_rivals(found: Findings) -> list[str]:
    """Name the confirmed rivals that are not the best on validation, but better than the pick."""
    pick, told = found.shown[PICK], []
    shown = {(item.label, item.eval_exits) for item in found.shown.values()}
    for item in found.results:
        if item.method not in rivals() or (item.label, item.eval_exits) in shown:
            continue
        for where, place in zip(COMPARED_ON, ("", " under corruption"), strict=True):
            better = [
                metric_label(name)
                for name in found.metrics
                if compare(pick, item, objective(name, found.task), where) == WORSE
            ]
            told += [f"{item.label} ({item.settings}) is better than it in {listed(better)}{place}."] if better else []
    return told


def _flops_ratio(found: Findings, role: str) -> float:
    """Return the FLOPs of a role as a multiple of the pick's."""
    return found.searched(role).values["flops"] / found.searched(PICK).values["flops"]


def _needs_text(ratio: float, name: str = "") -> str:
    """Write the FLOPs of the pick as a multiple of a rival's, which is named, or was named before."""
    if f"{ratio:.3g}" == "1":
        return f"needs as many FLOPs{name and f' as {name}'}"
    return f"needs {ratio_text(ratio)} {f'the FLOPs of {name}' if name else 'its FLOPs'}"


def ratio_text(ratio: float) -> str:
    """Write a ratio for people.

    Example:
        >>> ratio_text(0.05), ratio_text(0.9)
        ('1/20 of', '0.9 times')
    """
    return f"1/{1 / ratio:.3g} of" if ratio < 0.5 else f"{ratio:.3g} times"


def caveats(found: Findings) -> tuple[str, ...]:
    """Return what a reader should know before trusting the numbers."""
    own = [role_label(role, item) for role, item in found.shown.items() if not _is_confirmed(item, found)]
    told = []
    if not found.confirmed:
        told.append("Nothing was confirmed on new seeds: all numbers are from the one seed that the search chose by.")
    else:
        told.append(
            "Test numbers are means ± standard deviations over seeds that the search did not use. “Better” and “worse” "
            f"mean a significant difference (Welch's t-test, p < {LEVEL:g}) in that metric; about 1 in 20 comparisons "
            "looks different by luck alone. No significant difference does not mean equal: few seeds hide small "
            "differences."
        )
        told += [f"Not confirmed on new seeds, so measured on the search's own seed: {listed(own)}."] if own else []
    told += [
        f"{role_label(role, item).capitalize()} failed on {item.failed} of {item.failed + len(item.runs)} seeds."
        for role, item in found.shown.items()
        if item.failed
    ]
    told += [f"Left out because it is damaged: {reason}." for reason in found.lost.values()]
    if found.receipt is None:
        told.append("Time was not measured: the pick has not been shipped from this study yet.")
    return tuple(told)


def ship_commands(found: Findings) -> tuple[Command, ...]:
    """Return the commands to type next."""
    assert found.pick is not None, "only a pick can be shipped"
    folder = shlex.quote(str(found.record.path))
    return (
        Command(
            f"sae export {folder} --out shipped/model.onnx", "Ship it: an ONNX file, its manifest and its receipt."
        ),
        Command("sae predict shipped/model.onnx DATA --out predictions.csv", "Predict with that file, without torch."),
        Command(train_command(found.pick.config), "Train it again."),
    )


def receipt_table(found: Findings) -> Table:
    """Compare the pick with its rivals: a column for each, a row for each measure; costs also as multiples.

    Metrics are over seeds. Costs, time and size are those of the searched networks, which are the ones that are
    shipped: other seeds may choose other exits.
    """
    shown = found.shown
    is_shifted = all(item.shift for item in shown.values())
    rows = [
        ["configuration", *(_configuration_text(found.searched(role)) for role in shown)],
        ["runs", *(_runs_text(item, found) for item in shown.values())],
        *(_metric_row(found, name, "test") for name in found.metrics),
        *(_metric_row(found, name, "shift") for name in found.metrics if is_shifted),
        *(_cost_row(found, name) for name in SHOWN_COSTS),
        *_shipped_rows(found),
    ]
    time = " Time: onnxruntime on one thread, measured side by side." if found.receipt else ""
    first = metric_label(found.record.objectives[0].name)
    caption = (
        "Metrics: on the test split, mean ± standard deviation over seeds where there are several. Costs: of the "
        f"network to ship, with multiples of the pick's in brackets.{time} Rivals: the best network of their method by "
        f"{first} on validation."
    )
    columns = (Column("Measure"), *(Column(role_label(role, item)) for role, item in shown.items()))
    return Table("receipt", "Receipt", caption, columns, tuple(tuple(Cell(text) for text in row) for row in rows))


def _metric_row(found: Findings, name: str, where: Tested) -> list[str]:
    cells = [spread_cell(item.get(name, where), name) for item in found.shown.values()]
    column = metric_column(name, found.task, _numbers(cells), under_shift=where == "shift")
    return [column.heading, *(show(cell, column) for cell in cells)]


def _cost_row(found: Findings, name: str) -> list[str]:
    cells = [number_cell(found.searched(role).values.get(name), name) for role in found.shown]
    column = metric_column(name, found.task, _numbers(cells))
    return [column.heading, *(f"{show(cell, column)}{_multiple(cell.value, cells[0].value)}" for cell in cells)]


def _shipped_rows(found: Findings) -> list[list[str]]:
    """Return what shipping has measured: milliseconds, and the size of the file."""
    if not found.receipt or any(role not in found.receipt.rows for role in found.shown):
        return []
    shipped = [found.receipt.rows[role] for role in found.shown]
    times, sizes = [item.ms for item in shipped], [item.bytes for item in shipped]
    return [
        [f"ms for {found.receipt.batch} samples ↓", *(f"{ms:,.3f}{_multiple(ms, times[0])}" for ms in times)],
        ["file, kB ↓", *(f"{size / 1e3:,.0f}{_multiple(size, sizes[0])}" for size in sizes)],
    ]


def _numbers(cells: Sequence[Cell]) -> list[float]:
    return [cell.value for cell in cells if isinstance(cell.value, float | int)]


def _multiple(value: float | str | None, first: float | str | None) -> str:
    """Return a number as a multiple of the first, in brackets; nothing for the first itself."""
    if not isinstance(value, float | int) or not isinstance(first, float | int) or value == first:
        return ""
    return f" ({value / first:.3g} ×)"


def _is_confirmed(item: Result, found: Findings) -> bool:
    return any(item is other for other in found.confirmed)


def _runs_text(item: Result, found: Findings) -> str:
    return f"{len(item.runs)} on new seeds" if _is_confirmed(item, found) else "the search's own"


def _configuration_text(item: Candidate) -> str:
    exits = f", {read_at(item.active)}" if item.config.method.has_exits else ""
    return f"{item.label}: {item.config.summary}{exits}"
