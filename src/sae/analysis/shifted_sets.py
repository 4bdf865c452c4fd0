"""Each of the 95 corrupted sets by itself: what a configuration comes to on it, over its seeds."""

from typing import Any

from sae.analysis.candidates import SHIFTED_TEST
from sae.analysis.results import Result, found_at
from sae.analysis.spread import spreads_of
from sae.record import RunRecord


def means_by_set(result: Result) -> list[dict[str, Any]]:
    """Rows `corruption`, `severity` and `metrics`, the mean over the runs that were measured at this K′.

    Runs of earlier versions kept single sets at the trained K only; they have nothing to say at another.
    """
    by_run = [rows for run in result.runs if (rows := _sets_of(run, result))]
    if not by_run:
        return []
    places = [(row["corruption"], row["severity"]) for row in by_run[0]]
    values = [{(row["corruption"], row["severity"]): row["metrics"] for row in rows} for rows in by_run]
    return [
        {
            "corruption": corruption,
            "severity": severity,
            "metrics": {
                key: spread.mean
                for key, spread in spreads_of(
                    found[corruption, severity] for found in values if (corruption, severity) in found
                ).items()
            },
        }
        for corruption, severity in places
    ]


def _sets_of(run: RunRecord, result: Result) -> list[dict[str, Any]]:
    if not (run.path / SHIFTED_TEST).exists():
        return []
    report = run.read_json(SHIFTED_TEST)
    item = found_at(report, result.eval_exits) or {}
    kept: list[dict[str, Any]] = item.get("by_set", [])
    return kept or (report.get("by_set", []) if report.get("exits") == result.eval_exits else [])
