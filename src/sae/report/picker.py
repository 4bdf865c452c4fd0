"""Choosing among a study's candidates on the page itself, as `sae pick` does: its data, and its controls as HTML."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import combinations

from sae.analysis.bootstrap import RESAMPLES, differences_of, draw_metrics
from sae.analysis.candidates import Candidate
from sae.analysis.contestants import Contestant, check_same_samples
from sae.analysis.evidence import read_predictions
from sae.analysis.results import Result, make_result
from sae.analysis.sample_metrics import SAMPLE_METRICS
from sae.core.errors import SaeError
from sae.core.objectives import ALL_COSTS, Objective, objective
from sae.report.commands import train_command
from sae.report.findings import Findings, role_label
from sae.report.labels import SHOWN_COSTS, arrow_of, metric_column, network_key, shown_exits, unit_of

Value = float | str | None
MOST_COMPARED = 10
"""Confirmed configurations that are compared sample by sample, each with each."""
MOST_DRAWN, FEWEST_RESAMPLES = 400_000_000, 200
"""Samples that are drawn for it, over all runs, metrics and resamples; and the resamples that there are at least."""
ROW_FIELDS = ("key", "label", "kind", "method", "settings", "exits", "at", "shown", "run", "command", "seeds", "failed")


@dataclass(frozen=True)
class Measure:
    """A metric or cost that candidates are chosen by or shown with.

    Attributes:
        objective: The metric or cost.
        is_compared: Whether it is an objective of the study.
        digits: Decimals in its unit; None for none.
        maximum: The upper limit that the study sets itself, if any.
        minimum: The lower limit, likewise.
    """

    objective: Objective
    is_compared: bool
    digits: int | None
    maximum: float | None = None
    minimum: float | None = None

    def to_json(self) -> dict[str, bool | float | str | None]:
        """Return what the page's script reads."""
        item = self.objective
        cost = ALL_COSTS.get(item.key)
        return {
            "name": item.name,
            "label": item.label,
            "title": cost.unit if cost else item.label,
            "better": arrow_of(item),
            "maximise": item.quantity.maximise,
            "cost": item.is_cost,
            "whole": item.is_cost and not item.is_measured,
            "divisor": unit_of(item.name),
            "digits": self.digits,
            "compared": self.is_compared,
            "max": self.maximum,
            "min": self.minimum,
        }


@dataclass(frozen=True)
class Picker:
    """All candidates of a study, with what they are chosen by.

    Attributes:
        name: Of its place on the page.
        folder: The study, as a word of a command.
        measures: Objectives first.
        rows: A row for each candidate, in the order of `Selection.everything`: `ROW_FIELDS`, then `v0`, `v1`, … on
            validation, `t0`, … on test with the seed of the search, `m0`, … and `s0`, … on test over new seeds, and
            `c0`, …: what a confirmed candidate is chosen by.
        methods: The methods that were searched.
        compared: What a choice is shown beside: the key of a candidate by its role.
        intervals: Paired differences on the test split, by the keys of both candidates.
        resamples: Resamples of the bootstrap behind them.
    """

    name: str
    folder: str
    measures: tuple[Measure, ...]
    rows: tuple[Mapping[str, Value], ...]
    methods: tuple[str, ...]
    compared: Mapping[str, str]
    intervals: Sequence[Mapping[str, Value]] = field(default=())
    resamples: int = RESAMPLES

    def to_json(self) -> dict[str, object]:
        """Return what the page's script reads, without the rows."""
        return {
            "folder": self.folder,
            "measures": [item.to_json() for item in self.measures],
            "methods": list(self.methods),
            "compared": dict(self.compared),
            "intervals": [dict(item) for item in self.intervals],
            "resamples": self.resamples,
        }


def study_picker(found: Findings, name: str = "pick") -> Picker | None:
    """Return what a page needs to choose from a study; None while there is nothing to choose from."""
    selection = found.selection
    if selection is None:
        return None
    candidates, config = selection.everything, found.record.config
    compared = [item.name for item in found.record.objectives]
    wanted = dict.fromkeys([*compared, *found.metrics, *SHOWN_COSTS, *ALL_COSTS])
    known = [name for name in wanted if any(name in item.values for item in candidates) and _is_shown(name, compared)]
    measures = tuple(
        Measure(
            objective(name, found.task),
            name in compared,
            metric_column(name, found.task, _shown(candidates, name)).digits,
            config.max.get(name),
            config.min.get(name),
        )
        for name in known
    )
    confirmed = {network_key(item.label, item.config, item.eval_exits): item for item in found.confirmed}
    roles = {role_label(role): _key(found.chosen[role]) for role in found.shown}
    intervals, resamples = _intervals(found, known)
    columns = {name: tuple(f"{letter}{index}" for letter in "vtmsc") for index, name in enumerate(known)}
    again = {item.network: item for item in selection.again}
    of_runs: dict[str, dict[str, Value]] = {}
    for item in candidates:
        if item.label not in of_runs:
            of_runs[item.label] = _run_row(item, found.commands[item.label])
    return Picker(
        name,
        shlex.quote(str(found.record.path)),
        measures,
        tuple(_row(item, columns, confirmed, again.get(item.network), of_runs[item.label]) for item in candidates),
        tuple(dict.fromkeys(item.method for item in candidates)),
        roles,
        intervals,
        resamples,
    )


def _intervals(found: Findings, names: Sequence[str]) -> tuple[list[dict[str, Value]], int]:
    """Compare confirmed configurations sample by sample, each with each; also return the number of resamples.

    The pick and its rivals come first; configurations with failed seeds are left out, as they may look too good.
    The resamples are those of the headline, so that both give the same intervals, unless there are too many samples
    for that.
    """
    results = {item.network: item for item in [*found.shown.values(), *found.results] if found.is_confirmed(item)}
    results = {network: item for network, item in results.items() if not item.failed}
    metrics = [name for name in names if name in SAMPLE_METRICS[found.task]]
    kept: dict[str, Contestant] = {}
    for network, item in list(results.items())[:MOST_COMPARED]:
        own = found.kept.get(network) or read_predictions(item)
        if own is not None and _has_samples_of(own, next(iter(kept.values()), own)):
            kept[network_key(item.label, item.config, item.eval_exits)] = own
    if len(kept) < 2 or not metrics:
        return [], RESAMPLES
    predicted = sum(len(run.test.targets) for own in kept.values() for run in own.runs)
    resamples = max(FEWEST_RESAMPLES, min(RESAMPLES, MOST_DRAWN // (predicted * len(metrics))))
    drawn = {key: draw_metrics(own, metrics, resamples) for key, own in kept.items()}
    return [
        {
            "one": one,
            "other": other,
            "metric": item.metric,
            "value": _rounded(item.value),
            "low": _rounded(item.low),
            "high": _rounded(item.high),
            "verdict": item.verdict,
        }
        for one, other in combinations(drawn, 2)
        for item in differences_of(found.task, drawn[one], drawn[other])
        if math.isfinite(item.low) and math.isfinite(item.high)
    ], resamples


def _has_samples_of(own: Contestant, other: Contestant) -> bool:
    try:
        check_same_samples([own, other])
    except SaeError:
        return False
    return True


def _is_shown(name: str, compared: Sequence[str]) -> bool:
    """Return whether a cost is worth a row: those as shipped only where the study is about them."""
    return not name.startswith("shipped_") or name in compared


def _shown(candidates: Sequence[Candidate], name: str) -> list[float]:
    return [item.values[name] / unit_of(name) for item in candidates if name in item.values]


def _key(item: Candidate) -> str:
    return network_key(item.label, item.config, item.eval_exits)


def _run_row(item: Candidate, command: str) -> dict[str, Value]:
    """Return the part of a row that is the same at every K′ of a run."""
    return {
        "label": item.label,
        "kind": item.config.called.label,
        "method": item.method,
        "settings": item.config.summary,
        "run": _folder(item),
        "command": command,
    }


def _folder(item: Candidate) -> str:
    """Return the run folder to ship, in the study's folder."""
    return "/".join(item.shipped.record.path.parts[-4 if item.again else -3 :])


def _row(
    item: Candidate,
    columns: Mapping[str, Sequence[str]],
    confirmed: Mapping[str, Result],
    again: Candidate | None,
    of_run: Mapping[str, Value],
) -> dict[str, Value]:
    """Return the row of a candidate.

    Args:
        item: The candidate.
        columns: By metric or cost, its fields: on validation and test, mean and deviation over new seeds, and what a
            confirmed candidate is chosen by.
        confirmed: What was confirmed on new seeds, by key.
        again: The candidate by its runs on new seeds, if it was confirmed.
        of_run: The part that the candidate shares with others of its run.
    """
    assert item.run.evaluation is not None, "a candidate has finished"
    test = item.run.evaluation.test.at(item.eval_exits).metrics
    key = _key(item)
    result = confirmed.get(key)
    if result is None and again is not None:
        result = make_result(again.label, again.again, int(again.has_failed), again.eval_exits)
    row: dict[str, Value] = {
        "key": key,
        **of_run,
        "exits": item.exits,
        "at": item.eval_exits,
        "shown": shown_exits(item.config, item.eval_exits),
        "seeds": len(result.runs) if result else None,
        "failed": 1 if again and again.has_failed else None,
        **({"run": _folder(again), "command": train_command(again.config)} if again else {}),
    }
    for name, fields in columns.items():
        spread = result.get(name) if result else None
        over_seeds = (_rounded(spread.mean), _rounded(spread.std)) if spread else (None, None)
        chosen_by = again.values.get(name) if again else None
        values = item.values.get(name), _rounded(test.get(name)), *over_seeds, chosen_by
        known = zip(fields, values, strict=True)
        row |= {field_: value for field_, value in known if value is not None and math.isfinite(value)}
    return row


def _rounded(value: float | None) -> float | None:
    """Round what is only shown, not chosen by, which keeps pages small."""
    return value if value is None or isinstance(value, int) else float(f"{value:.6g}")


def render_picker(picker: Picker) -> str:
    """Render inputs for limits, weights, methods and a preference; the page's script fills and reads them."""
    name = escape(picker.name)
    limits = "\n".join(_limit(name, index, item) for index, item in enumerate(picker.measures))
    weights = "\n".join(_weight(name, index, item) for index, item in enumerate(picker.measures) if item.is_compared)
    methods = "\n".join(
        f'<label><input type="checkbox" name="method" value="{escape(method)}" checked> {escape(method)}</label>'
        for method in picker.methods
    )
    options = "\n".join(
        f'<option value="{escape(item.objective.name)}">best {escape(item.objective.label)}</option>'
        for item in picker.measures
    )
    return f"""<div class="picker half needs-script" data-picker="{name}">
<form aria-labelledby="picker-{name}">
<h3 id="picker-{name}">What are your limits?</h3>
<div class="limits">
{limits}
</div>
<details class="choices">
<summary>Weights, methods and preference</summary>
<fieldset class="weights"><legend>Weight in the compromise</legend>
{weights}
</fieldset>
<fieldset class="methods"><legend>Methods</legend>
{methods}
</fieldset>
<label class="prefer">Pick the <select><option value="">best compromise</option>
{options}
</select></label>
</details>
<p class="status" role="status"></p>
<button type="button" class="reset more" hidden>Back to the study's pick</button>
</form>
<details class="compare">
<summary>Compare two networks</summary>
<div class="pair">
<label>First <input list="networks-{name}" autocomplete="off" spellcheck="false"></label>
<label>Second <input list="networks-{name}" autocomplete="off" spellcheck="false"></label>
</div>
<datalist id="networks-{name}"></datalist>
<p class="hint">Or click the name in a row of a table, or a mark in a figure and then <em>Compare</em>.</p>
<div class="compared-pair"></div>
</details>
</div>"""


def _limit(name: str, index: int, item: Measure) -> str:
    """Render a slider and a number for the limit that matters: the most of what should be little, and the reverse."""
    side, word = ("min", "at least") if item.objective.quantity.maximise else ("max", "at most")
    title = escape(str(item.to_json()["title"]))
    label = f"limit-{name}-{index}"
    return f"""<div class="limit" data-measure="{index}" data-side="{side}">
<label for="{label}">{title} {word}</label>
<input type="range" aria-label="{title} {word}, slider">
<input type="number" id="{label}" step="any" placeholder="any" inputmode="decimal">
</div>"""


def _weight(name: str, index: int, item: Measure) -> str:
    label = f"weight-{name}-{index}"
    return f"""<div class="weight" data-measure="{index}">
<label for="{label}">{escape(item.objective.label)}</label>
<input type="range" id="{label}" min="0" max="4" step="0.5" value="1"><output for="{label}">1</output>
</div>"""
