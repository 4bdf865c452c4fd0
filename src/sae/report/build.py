"""From study and run folders to a report."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from sae.analysis.ranking import mean_ranks
from sae.analysis.results import Result, Where, run_results
from sae.core.errors import RecordError
from sae.core.wording import duration
from sae.records.run import RunRecord
from sae.records.study import StudyRecord
from sae.report.confirmed_sections import calibration_section, confirmed_section, shift_section
from sae.report.content import Lead, Note, Report, Section, prefixed, section
from sae.report.findings import COSTS, Findings, find
from sae.report.glossary import words_of
from sae.report.lead import study_lead
from sae.report.run_sections import run_lead, run_sections
from sae.report.search_sections import (
    depth_section,
    influence_section,
    search_section,
    structure_section,
    trials_section,
)
from sae.report.tables import rank_table

OF_RUNS = "runs"
"""Names of what is told of runs beside studies."""
SECTIONS = (
    search_section,
    confirmed_section,
    shift_section,
    calibration_section,
    structure_section,
    depth_section,
    influence_section,
    trials_section,
)
"""Of a study, in reading order. To add one: a function and a line."""


def report_of(studies: Sequence[StudyRecord], runs: Sequence[RunRecord] = (), title: str | None = None) -> Report:
    """The report of one study, of several with ranks over their data sets, or of single runs.

    Args:
        studies: Those to report on; unfinished ones say what is missing.
        runs: Runs to set side by side.
        title: Of the page; by default what it is about.
    """
    found = [find(record) for record in studies]
    results = run_results(runs)
    of_runs = run_sections(results)
    sections = (*_studies(found), *((prefixed(one, OF_RUNS) for one in of_runs) if found else of_runs))
    lead = study_lead(found[0]) if len(found) == 1 else _several(found) if found else run_lead(runs, results)
    report = Report(title or _title(found, results), _facts(found, runs), lead, sections)
    return replace(report, words=words_of(report))


def _studies(found: Sequence[Findings]) -> tuple[Section, ...]:
    if len(found) == 1:
        return tuple(make(found[0]) for make in SECTIONS)
    makers = (_recommendation, *SECTIONS)
    own = (prefixed(make(item), name) for item, name in zip(found, names_of(found), strict=True) for make in makers)
    return (*([_ranks(found)] if found else []), *own)


def _recommendation(item: Findings) -> Section:
    """What comes first of a study that has a page for itself."""
    lead = study_lead(item)
    notes = (Note(text) for text in lead.reasons)
    return section("recommendation", "What to ship", lead.sentence, lead.receipt, *notes)


def names_of(found: Sequence[Findings]) -> list[str]:
    """A name for each study, its folder's, that can stand in an address and of a file; where taken, with a number."""
    names: list[str] = []
    for item in found:
        name = re.sub(r"[^a-zA-Z0-9]+", "-", item.record.path.resolve().name).strip("-") or "study"
        numbered = (f"{name}-{number}" for number in count(2))
        taken = {*(other.lower() for other in names), OF_RUNS}  # files may not tell letters by their case
        names.append(name if name.lower() not in taken else next(one for one in numbered if one.lower() not in taken))
    return names


def _ranks(found: Sequence[Findings]) -> Section:
    """Ranks of the methods over all data sets: clean and shifted, for each kind of task."""
    tables = []
    for task in ("classification", "regression"):
        by_data: dict[str, list[Result]] = {}
        for item in (item for item in found if item.task == task and item.results):
            by_data.setdefault(item.data_name, []).extend(item.results)
        metrics = [*_shared_metrics(found, task), *COSTS]
        known: dict[Where, Mapping[str, Sequence[Result]]] = {"test": by_data, "shift": _shifted(by_data)}
        for where, results in known.items():
            if results:
                ranks = mean_ranks(results, metrics, task, where)
                tables.append(rank_table(ranks, where, name=f"ranks-{task}-{where}"))
    intro = "Mean over a class's confirmed configurations, ranked among the classes, averaged over data sets."
    missing = None if tables else Note("Nothing was confirmed in any of them yet.")
    return section("across-data-sets", "Across data sets", intro, *tables, missing)


def _shared_metrics(found: Sequence[Findings], task: str) -> list[str]:
    named = [name for item in found if item.record.config.task == task for name in item.metrics]
    return list(dict.fromkeys(named))


def _shifted(by_data: Mapping[str, Sequence[Result]]) -> dict[str, list[Result]]:
    kept = {name: [item for item in results if item.shift] for name, results in by_data.items()}
    return {name: results for name, results in kept.items() if results}


def _several(found: Sequence[Findings]) -> Lead:
    leads = zip(names_of(found), map(study_lead, found), strict=True)
    sentences = tuple(f"{name}: {lead.sentence}" for name, lead in leads)
    return Lead(f"{len(found)} studies, each with a recommendation of its own.", sentences)


def _title(found: Sequence[Findings], results: Sequence[Result]) -> str:
    if found:
        return f"Which network to ship: {', '.join(dict.fromkeys(_shown_data(item.data_name) for item in found))}"
    names = dict.fromkeys(_shown_data(item.config.data.name) for item in results)
    return f"Runs on {', '.join(names) or 'no data yet'}"


def _shown_data(name: str) -> str:
    """Data as they are called on the page: a path of one's own by its last part.

    Example:
        >>> _shown_data("pneumoniamnist"), _shown_data("/home/me/data/patients.csv"), _shown_data(".")
        ('pneumoniamnist', 'patients.csv', '.')
    """
    return Path(name).name or name


def _facts(found: Sequence[Findings], runs: Sequence[RunRecord]) -> tuple[str, ...]:
    facts = []
    for item in found:
        config = item.record.config
        backbones = dict.fromkeys(str(space["backbone"]["name"]) for space in config.spaces.values())
        trials = sum(1 for _ in item.record.trials())
        facts += [
            f"{_shown_data(item.data_name)} on {', '.join(backbones)}",
            f"objectives {', '.join(config.objectives)}",
        ]
        facts += [f"{trials} trials{_spent(item.record)}", f"seed {config.seed}"]
    facts += [f"{len(runs)} runs"] if runs else []
    return (*facts, f"written {time.strftime('%Y-%m-%d')}")


def _spent(record: StudyRecord) -> str:
    """Time spent on a study, where that is known."""
    try:
        return f", {duration(record.seconds)}" if record.seconds else ""
    except RecordError:
        return ""
