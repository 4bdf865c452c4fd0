"""Section about shift: the front that corrupted validation images choose, measured on corrupted test images."""

from sae.analysis.results import Result, means_by_set
from sae.analysis.selection import Selection
from sae.core.objectives import SHIFTED
from sae.core.table import Table
from sae.report.confirmed_sections import corruption_figure, rank_of, result_point
from sae.report.content import Figure, Note, Section, section
from sae.report.figures.scatter import FLOPS, PARAMS, Point, confirmed_scatter, nll_pairs, under_shift, usual_pairs
from sae.report.figures.search import search_scatter, thinned
from sae.report.findings import Findings
from sae.report.search_sections import candidate_points
from sae.report.tables import best_table, class_fronts_table, front_table, shift_table

Parts = list[Figure | Table | Note | None]

INTRO = (
    "Images under 19 corruptions at 5 severities. Corrupted validation images choose; corrupted test images only "
    "measure."
)
NOT_MEASURED = "Not measured. For image data: `sae search … --shift`. Other data cannot be corrupted."
ELSEWHERE = "These configurations were chosen on clean validation data: the study has confirmed no front under shift."
"""Said of studies that were searched or confirmed without it."""


def shift_section(found: Findings) -> Section:
    """Show the front under shift, and its configurations on corrupted test images."""
    parts: Parts = [corruption_figure(found.labelled(), found.metrics[0], found.task), *_front(found), *_results(found)]
    if not any(parts):
        return section("under-shift", "Under shift", "", Note(NOT_MEASURED))
    without = [label for label, item in found.labelled() if not means_by_set(item)]
    note = Note(f"Without results for single corrupted sets: {'; '.join(without)}.") if without else None
    intro = f"{INTRO}{_pick_text(found.shifted)}"
    return section("under-shift", "Under shift", intro, *parts, note)


def _pick_text(selection: Selection | None) -> str:
    """Return which network would be picked under shift, and why; nothing if that was not measured."""
    if selection is None:
        return ""
    pick = selection.pick()
    return f" The pick under shift is {pick.candidate.label}, {pick.why}."


def _front(found: Findings) -> Parts:
    """Show all candidates on corrupted validation images, and which of them are Pareto-optimal there."""
    selection = found.shifted
    if selection is None:
        return []
    pairs = [*under_shift(usual_pairs(found.metrics, found.task)), (FLOPS, PARAMS)]
    strong = {id(item) for item in selection.front}
    drawn = thinned(selection.everything, lambda item: id(item) in strong)
    return [
        search_scatter(
            candidate_points(drawn, selection.front, selection.pick().candidate, found.commands),
            pairs,
            name="search-shifted",
            title="All candidates under shift",
            place="corrupted validation images",
            total=len(selection.everything),
        ),
        front_table(selection, found.task, name="front-shifted", tolerance=found.tolerance),
        class_fronts_table(selection, found.task, name="class-fronts-shifted"),
    ]


def _results(found: Findings) -> Parts:
    """Show the confirmed configurations on corrupted test images."""
    results, is_own = found.tested("shift"), found.shifted_results is not None
    if not results:
        return []
    points = [_point(item, found) for item in results]
    pairs = under_shift(usual_pairs(found.metrics, found.task))
    pairs += [(FLOPS, PARAMS)] if is_own else []  # else those of the clean front, which has this panel
    more = under_shift(nll_pairs(found.metrics, found.task))
    selection = found.shifted if is_own else found.selection
    return [
        None if is_own else Note(ELSEWHERE),
        confirmed_scatter(points, pairs, name="shifted-quality", title="Corrupted test images, new seeds"),
        confirmed_scatter(points, more, name="shifted-nll", title="Quality and NLL, corrupted test images"),
        shift_table(results, found.metrics, found.task),
        best_table(results, found.metrics, found.task, "shift", name="best-shifted", selection=selection),
        rank_of(found, "shift"),
    ]


def _point(item: Result, found: Findings) -> Point:
    measured = {f"{key}{SHIFTED}": value for key, value in (item.shift or {}).items()}
    return result_point(item, measured, is_pick=_is_pick(item, found))


def _is_pick(item: Result, found: Findings) -> bool:
    """Return whether a configuration is the pick under shift, or the pick of a study without one."""
    if found.shifted is None or found.shifted_results is None:
        return found.is_pick(item)
    return _names(found.shifted, item)


def _names(selection: Selection, item: Result) -> bool:
    return item.network == selection.pick().candidate.network
