"""Each of the 95 corrupted sets by itself: what a configuration comes to on it, over its seeds."""

from contextlib import suppress
from typing import Any

from sae.analysis.candidates import SHIFTED_TEST
from sae.analysis.results import Result, found_at
from sae.analysis.spread import spreads_of
from sae.core.errors import RecordError
from sae.records.run import RunRecord


def means_by_set(result: Result) -> list[dict[str, Any]]:
    """Rows `corruption`, `severity` and `metrics`, the mean over the runs that were measured at this K′.

    Runs of earlier versions kept single sets at the trained K only; they have nothing to say at another.
    """
    values = [by_place for run in result.runs if (by_place := _sets_of(run, result))]
    places = list(values[0]) if values else []
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


def _sets_of(run: RunRecord, result: Result) -> dict[tuple[str, int], dict[str, float]]:
    """By corruption and severity; empty where the run was not measured so, or its file cannot be read."""
    if not (run.path / SHIFTED_TEST).exists():
        return {}
    with suppress(RecordError), run.expecting(SHIFTED_TEST):
        report = run.read_json(SHIFTED_TEST)
        item = found_at(report, result.eval_exits) or {}
        kept = item.get("by_set") or (report.get("by_set", []) if report["exits"] == result.eval_exits else [])
        return {(row["corruption"], row["severity"]): dict(row["metrics"]) for row in kept}
    return {}
