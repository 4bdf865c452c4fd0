"""Reports of studies and runs: title, facts, lead and sections."""

import itertools
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from altair.utils.schemapi import debug_mode

from sae.analysis.comparison import mean_ranks
from sae.analysis.results import Result, Tested, run_results
from sae.core.errors import RecordError
from sae.core.objectives import metrics_of, unit_in
from sae.core.table import Table
from sae.core.wording import count, duration, listed
from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from sae.report.confirmed_sections import calibration_section, confirmed_section
from sae.report.content import Drawing, Figure, Gallery, Lead, Note, Part, Report, Section, prefixed, section, with_data
from sae.report.findings import Findings, find
from sae.report.glossary import glossary_of
from sae.report.labels import SHOWN_COSTS, shown_data
from sae.report.lead import study_lead
from sae.report.mistake_sections import mistakes_section
from sae.report.network_sections import network_section
from sae.report.picker import study_picker
from sae.report.run_sections import run_lead, run_sections
from sae.report.search_sections import (
    depth_section,
    influence_section,
    search_section,
    structure_section,
    trials_section,
)
from sae.report.shift_sections import shift_section
from sae.report.tables import rank_table

RUNS_PREFIX = "runs"
"""Before the names of sections about runs, on a page that also has studies."""
TESTED: tuple[Tested, ...] = ("test", "shift")
SECTIONS = (
    mistakes_section,
    calibration_section,
    search_section,
    confirmed_section,
    shift_section,
)
"""Sections of a study in reading order. To add one, write a function and a line here."""
FOR_RESEARCHERS = (network_section, structure_section, depth_section, influence_section, trials_section)
"""Sections that come last and are folded."""
MORE = (
    *("parallel", "hypervolume", "confirmed-nll", "class-fronts", "ranks", "best"),
    *("search-shifted", "front-shifted", "shifted-quality", "class-fronts-shifted", "ranks-shifted", "shifted-nll"),
    *("shifted", "best-shifted"),
)
"""Names of figures and tables for researchers, which move from their sections to a folded one, in this order: narrow
ones are neighbours, so that they share a row."""


@debug_mode(False)  # every figure is checked and drawn in tests; to check all its parts again takes half the time
def report_of(
    studies: Sequence[StudyRecord],
    runs: Sequence[RunRecord] = (),
    title: str | None = None,
    tolerance: float | None = None,
) -> Report:
    """Make the report of one study, of several studies with ranks across their data sets, or of single runs.

    Args:
        studies: Finished or unfinished; the report says what is missing.
        runs: Runs to compare.
        title: Title of the page; by default it names the data.
        tolerance: Share of a cost by which candidates of one row of a front may differ; 0 gives each a row. The
            default is `TOLERANCE` of `sae.analysis.candidates`.
    """
    found = [find(record, tolerance) for record in studies]
    results = run_results(runs)
    of_runs = run_sections(results)
    sections = (*_studies(found), *((prefixed(one, RUNS_PREFIX) for one in of_runs) if found else of_runs))
    lead = _lead(found[0]) if len(found) == 1 else _several(found) if found else run_lead(runs, results)
    report = Report(title or _title(found, results), _facts(found, runs), lead, sections)
    return replace(report, glossary=glossary_of(report))


def _studies(found: Sequence[Findings]) -> tuple[Section, ...]:
    if len(found) == 1:
        return _sections(found[0])
    own = (one for item, name in zip(found, names_of(found), strict=True) for one in _one_of_several(item, name))
    return (*([_ranks(found)] if found else []), *own)


def _one_of_several(item: Findings, name: str) -> tuple[Section, ...]:
    """Make the sections of a study among several: its recommendation, and everything else folded."""
    lead = section("recommendation", "Recommendation", "", _lead(item))
    rest = (replace(prefixed(one, name), title=one.title, folded_under=f"{name}: details") for one in _sections(item))
    return (prefixed(lead, name), *rest)


def _sections(item: Findings) -> tuple[Section, ...]:
    """Make the sections of a study: first those for everybody, then the folded ones."""
    made = [make(item) for make in SECTIONS]
    kept = (replace(one, parts=tuple(part for part in one.parts if not _is_more(part))) for one in made)
    found = {part.name: part for one in made for part in one.parts if _is_more(part)}
    moved = [found[name] for name in MORE if name in found]
    intro = "The same results by kind of method, with ranks, and what else was measured."
    more = [section("more-results", "Kinds of methods, ranks and more", intro, *moved)] if moved else []
    folded = (
        replace(one, folded_under="For researchers") for one in (*more, *(make(item) for make in FOR_RESEARCHERS))
    )
    return tuple(with_data(one, shown_data(item.data_name)) for one in (*kept, *folded))


def _is_more(part: "Part") -> TypeGuard[Figure | Drawing | Gallery | Table]:
    return not isinstance(part, Note | Lead) and part.name in MORE


def _lead(item: Findings) -> Lead:
    return replace(study_lead(item), picker=study_picker(item))


def names_of(found: Sequence[Findings]) -> list[str]:
    """Name each study after its folder, usable in addresses and file names, with a number where a name is taken."""
    names: list[str] = []
    for item in found:
        name = re.sub(r"[^a-zA-Z0-9]+", "-", item.record.path.resolve().name).strip("-") or "study"
        numbered = (f"{name}-{number}" for number in itertools.count(2))
        taken = {*(other.lower() for other in names), RUNS_PREFIX}  # file systems may ignore case
        names.append(name if name.lower() not in taken else next(one for one in numbered if one.lower() not in taken))
    return names


def _ranks(found: Sequence[Findings]) -> Section:
    """Rank the kinds of methods over all data sets: clean and shifted, for each task."""
    tables, is_averaged = [], False
    for task in ("classification", "regression"):
        of_task = [item for item in found if item.task == task]
        for where in TESTED:
            by_data: dict[str, list[Result]] = {}
            for item in of_task:
                by_data.setdefault(item.data_name, []).extend(item.tested(where))
            results = {name: members for name, members in by_data.items() if members}
            if results:
                ranks = mean_ranks(results, [*_headlines(of_task), *SHOWN_COSTS], task, where)
                is_averaged = is_averaged or len(results) > 1
                made = rank_table(ranks, where, name=f"ranks-{task}-{where}")
                tables.append(replace(made, title=f"{made.title}, {task}: {listed(list(map(shown_data, results)))}"))
    averaged = ", then averaged over the data sets of a task" if is_averaged else ""
    intro = f"Kinds of methods, ranked in each data set by the mean of their confirmed configurations{averaged}."
    missing = None if tables else Note("No study has confirmed results yet.")
    return section("across-data-sets", "Across data sets", intro, *tables, missing)


def _headlines(found: Sequence[Findings]) -> list[dict[str, str]]:
    """Return the headline metrics of studies of one task by data set, so that their places share a column.

    For example accuracy on one data set and F1 on the others are the column `accuracy or F1`.
    """
    names = {item.data_name: item.metrics for item in found}
    number = min(len(metrics) for metrics in names.values())
    return [{data: metrics[index] for data, metrics in names.items()} for index in range(number)]


def _several(found: Sequence[Findings]) -> Lead:
    leads = zip(names_of(found), map(study_lead, found), strict=True)
    sentences = tuple(f"{name}: {lead.sentence}" for name, lead in leads)
    return Lead(f"{len(found)} studies, each with its own answer.", sentences)


def _title(found: Sequence[Findings], results: Sequence[Result]) -> str:
    if found:
        return f"Which network to ship: {', '.join(dict.fromkeys(shown_data(item.data_name) for item in found))}"
    names = dict.fromkeys(shown_data(item.config.data.name) for item in results)
    return f"Runs on {', '.join(names) or 'no data yet'}"


def _facts(found: Sequence[Findings], runs: Sequence[RunRecord]) -> tuple[str, ...]:
    facts = []
    for item, name in zip(found, names_of(found), strict=True):
        config = item.record.config
        backbones = dict.fromkeys(str(space["backbone"]["name"]) for space in config.spaces.values())
        facts += [
            f"{f'{name}: ' if len(found) > 1 else ''}{shown_data(item.data_name)} on {', '.join(backbones)}",
            f"objectives {', '.join(one.label for one in item.record.objectives)}",
        ]
        facts += [_units(item)] if item.task == "regression" and item.record.target else []
        facts += [f"{count(len(item.runs), 'trial')}{_spent(item.record)}", f"seed {config.seed}"]
    facts += [count(len(runs), "run")] if runs else []
    return (*facts, f"written {time.strftime('%Y-%m-%d')}")


def _units(found: Findings) -> str:
    """Name what is predicted and the metrics in its unit: `predicts load: MSE in load², RMSE and MAE in load`."""
    target = found.record.target or ""
    by_unit: dict[str, list[str]] = {}
    for key, metric in metrics_of("regression").items():
        if unit := unit_in(key, target):
            by_unit.setdefault(unit, []).append(metric.label)
    return f"predicts {target}: " + ", ".join(f"{listed(labels)} in {unit}" for unit, labels in by_unit.items())


def _spent(record: StudyRecord) -> str:
    """Return the time spent on a study, nothing where it is not known."""
    try:
        seconds = record.read_seconds()
        return f", {duration(seconds)}" if seconds else ""
    except RecordError:
        return ""
