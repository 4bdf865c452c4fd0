"""From study and run folders to a report."""

import re
import time
from collections.abc import Mapping, Sequence

from sae.analysis.ranking import mean_ranks
from sae.analysis.results import Result
from sae.record import RunRecord
from sae.report.content import Lead, Report, Section
from sae.report.findings import Findings, find
from sae.report.lead import study_lead
from sae.report.run_sections import results_of, run_lead, run_sections
from sae.report.study_sections import COSTS, StudySections
from sae.report.tables import rank_table
from sae.study_record import StudyRecord


def report_of(studies: Sequence[StudyRecord], runs: Sequence[RunRecord] = (), title: str | None = None) -> Report:
    """The report of one study, of several with ranks over their data sets, or of single runs.

    Args:
        studies: Those to report on; unfinished ones say what is missing.
        runs: Runs to set side by side.
        title: Of the page; by default what it is about.
    """
    found = [find(record) for record in studies]
    results = results_of(runs)
    sections = (*_studies(found), *run_sections(runs, results, "run-" if found else ""))
    lead = study_lead(found[0]) if len(found) == 1 else _several(found) if found else run_lead(runs, results)
    return Report(title or _title(found, results), _facts(found, runs), lead, sections)


def _studies(found: Sequence[Findings]) -> tuple[Section, ...]:
    if len(found) == 1:
        return StudySections(found[0]).all()
    own = [section for item, prefix in zip(found, _prefixes(found), strict=True) for section in _named(item, prefix)]
    return (*([_ranks(found)] if found else []), *own)


def _named(item: Findings, prefix: str) -> list[Section]:
    """A study's sections, each with its name."""
    sections = StudySections(item, f"{prefix}-").all()
    return [Section(part.name, f"{prefix}: {part.title}", part.intro, part.parts) for part in sections]


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
    return Section("ranks-section", "Across data sets", intro, tuple(tables))


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


