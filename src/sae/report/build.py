"""From study and run folders to a report."""

import re
import time
from collections.abc import Mapping, Sequence

from sae.analysis.ranking import mean_ranks
from sae.analysis.results import Result, run_results
from sae.record import RunRecord
from sae.report.confirmed_sections import calibration_section, confirmed_section, shift_section
from sae.report.content import Lead, Note, Report, Section, prefixed, section
from sae.report.findings import COSTS, Findings, find
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
from sae.study_record import StudyRecord

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
    sections = (*_studies(found), *((prefixed(one, "runs") for one in of_runs) if found else of_runs))
    lead = study_lead(found[0]) if len(found) == 1 else _several(found) if found else run_lead(runs, results)
    return Report(title or _title(found, results), _facts(found, runs), lead, sections)


def _studies(found: Sequence[Findings]) -> tuple[Section, ...]:
    if len(found) == 1:
        return tuple(make(found[0]) for make in SECTIONS)
    names = _prefixes(found)
    makers = (_recommendation, *SECTIONS)
    own = (prefixed(make(item), name) for item, name in zip(found, names, strict=True) for make in makers)
    return (*([_ranks(found)] if found else []), *own)


def _recommendation(item: Findings) -> Section:
    """What comes first of a study that has a page for itself."""
    lead = study_lead(item)
    notes = (Note(text) for text in lead.reasons)
    return section("recommendation", "What to ship", lead.sentence, lead.receipt, *notes)


def _prefixes(found: Sequence[Findings]) -> list[str]:
    """A name for each study that can stand in an address; two folders of the same name are numbered."""
    names = [re.sub(r"[^a-zA-Z0-9]+", "-", item.record.path.resolve().name).strip("-") or "study" for item in found]
    return [f"{name}-{index}" if names.count(name) > 1 else name for index, name in enumerate(names, start=1)]


def _ranks(found: Sequence[Findings]) -> Section:
    """Ranks of the methods over all data sets: clean and shifted, for each kind of task."""
    tables = []
    for task in ("classification", "regression"):
        by_data = {item.record.path.name: item.results for item in found if item.record.config.task == task}
        by_data = {name: results for name, results in by_data.items() if results}
        metrics = [*_shared_metrics(found, task), *COSTS]
        for where, known in (("test", by_data), ("shift", _shifted(by_data))):
            if known:
                ranks = mean_ranks(known, metrics, task, where)  # type: ignore[arg-type]
                tables.append(rank_table(ranks, where, name=f"ranks-{task}-{where}"))  # type: ignore[arg-type]
    intro = "Mean over a class's confirmed configurations, ranked among the classes, averaged over data sets."
    return Section("across-data-sets", "Across data sets", intro, tuple(tables))


def _shared_metrics(found: Sequence[Findings], task: str) -> list[str]:
    named = [name for item in found if item.record.config.task == task for name in item.metrics]
    return list(dict.fromkeys(named))


def _shifted(by_data: Mapping[str, Sequence[Result]]) -> dict[str, list[Result]]:
    kept = {name: [item for item in results if item.shift] for name, results in by_data.items()}
    return {name: results for name, results in kept.items() if results}


def _several(found: Sequence[Findings]) -> Lead:
    leads = [(item, study_lead(item)) for item in found]
    sentences = tuple(f"{item.record.path.name}: {lead.sentence}" for item, lead in leads)
    return Lead(f"{len(found)} studies, each with a recommendation of its own.", sentences)


def _title(found: Sequence[Findings], results: Sequence[Result]) -> str:
    if found:
        return f"Which network to ship: {', '.join(dict.fromkeys(item.data_name for item in found))}"
    return f"Runs on {', '.join(dict.fromkeys(item.config.data.name for item in results)) or 'no data yet'}"


def _facts(found: Sequence[Findings], runs: Sequence[RunRecord]) -> tuple[str, ...]:
    facts = []
    for item in found:
        config = item.record.config
        backbones = dict.fromkeys(str(space["backbone"]["name"]) for space in config.spaces.values())
        trials = sum(1 for _ in item.record.trials())
        facts += [f"{item.data_name} on {', '.join(backbones)}", f"objectives {', '.join(config.objectives)}"]
        facts += [f"{trials} trials, {_duration(item.record.seconds)}", f"seed {config.seed}"]
    facts += [f"{len(runs)} runs"] if runs else []
    return (*facts, f"written {time.strftime('%Y-%m-%d')}")


def _duration(seconds: float) -> str:
    """A time as people say it.

    Example:
        >>> _duration(4000), _duration(90)
        ('1 h 6 min', '1 min 30 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
