"""The sections of a study's report, each from what the analysis says; what is missing is said in its place."""

from collections.abc import Iterable, Sequence
from typing import Any

from sae.analysis.candidates import Candidate, damages, summary
from sae.analysis.curves import reliability_curve, risk_curve
from sae.analysis.depth import depth_preference, input_preference, read_preferences
from sae.analysis.grids import grid_means
from sae.analysis.influence import influence
from sae.analysis.progress import trial_counts
from sae.analysis.ranking import mean_ranks
from sae.analysis.results import Result
from sae.analysis.selection import failures
from sae.analysis.shifted_sets import means_by_set
from sae.analysis.trial_values import read_trials
from sae.objectives import Objective, objective
from sae.report.commands import train_command
from sae.report.confirmed_figure import confirmed_scatter
from sae.report.content import Figure, Note, Section, Table
from sae.report.depth_figure import depth_figure
from sae.report.findings import Findings
from sae.report.grid_figure import grid_figure
from sae.report.lead import ROLES
from sae.report.reliability_figure import reliability_figure
from sae.report.risk_coverage_figure import risk_coverage_figure
from sae.report.scatter import under_shift, usual_pairs
from sae.report.search_figure import hypervolume_figure, search_scatter
from sae.report.shift_figure import shift_figure
from sae.report.tables import best_table, confirmed_table, front_table, influence_table, rank_table, trials_table

Part = Figure | Table | Note
COSTS = ("flops", "params")


class StudySections:
    """Makes the sections of one study.

    Attributes:
        found: What there is to tell.
        prefix: Before the names of figures and tables, where a page tells of several studies.
    """

    def __init__(self, found: Findings, prefix: str = "") -> None:
        self.found, self.prefix = found, prefix
        self.task = found.record.config.task
        self.trials = read_trials(found.record.trials())

    def all(self) -> tuple[Section, ...]:
        """In reading order."""
        return (
            self.search(),
            self.confirmed(),
            self.shift(),
            self.calibration(),
            self.structure(),
            self.depth(),
            self.influence(),
            self.listing(),
        )

    def search(self) -> Section:
        """What was tried, and what no other beats."""
        found, selection = self.found, self.found.selection
        parts: list[Part | None] = []
        if selection is None:
            parts.append(Note(f"No front yet: {found.missing}."))
        else:
            points = [self._point(item) for item in selection.candidates]
            parts += [
                search_scatter(points, self._pairs(), name=self._name("search"), title="Every configuration tried"),
                hypervolume_figure(selection.history(), name=self._name("hypervolume"), title="How the front grew"),
                front_table(selection, self.task, name=self._name("front")),
            ]
        parts += [Note(text) for text in self._losses()]
        return self._section("search", "What the search found", self._search_intro(), parts)

    def confirmed(self) -> Section:
        """What other seeds say of the chosen."""
        results, metrics = self.found.results, self.found.metrics
        intro = (
            "The chosen configurations, trained again on seeds that the search never saw: mean ± standard deviation on "
            "the clean test split."
        )
        if not results:
            again = f"sae search … --confirm 4 --out {self.found.record.path}"
            return self._section("confirmed", "On other seeds", intro, [Note(f"Nothing was confirmed: `{again}` does.")])
        rows = [self._confirmed(item) for item in results]
        named = [*metrics, *COSTS]
        ranks = mean_ranks({self.found.data_name: results}, named, self.task)
        parts = [
            confirmed_scatter(rows, self._pairs(), name=self._name("confirmed"), title="Test split, other seeds"),
            confirmed_table(results, metrics, self.task, name=self._name("confirmed-table")),
            best_table(results, metrics, self.task, name=self._name("best")),
            rank_table(ranks, name=self._name("ranks")),
        ]
        return self._section("confirmed", "What holds on other seeds", intro, parts)

    def shift(self) -> Section:
        """The same on corrupted test images."""
        results = [item for item in self.found.results if item.shift]
        intro = (
            "The test images under 19 corruptions at 5 severities. A spread over seeds says how far to trust a mean; the "
            "spread over corrupted sets, in the table, says how much the kind of damage matters."
        )
        heat = [
            {"label": self._label(role, item), "by_set": rows}
            for role, item in self.found.shown.items()
            if (rows := means_by_set(item))
        ]
        quality = objective(self.found.metrics[0], self.task)
        rival = next((row["label"] for row in heat if row["label"].startswith(ROLES["ensemble"])), None)
        parts: list[Part | None] = []
        if results:
            rows = [self._confirmed(item, shifted=True) for item in results]
            pairs = under_shift(self._pairs())
            parts += [
                confirmed_scatter(rows, pairs, name=self._name("shifted"), title="Corrupted test images, other seeds"),
                best_table(results, self.found.metrics, self.task, "shift", name=self._name("best-shifted")),
                rank_table(self._ranks(results), "shift", name=self._name("ranks-shifted")),
            ]
        if heat:
            title = "Where corruption hurts"
            figure = shift_figure(heat, quality, name=self._name("corruptions"), title=title, difference_to=rival)
            parts.insert(0, figure)
        if not parts:
            parts = [Note("Not measured: `sae search … --shift` evaluates every trial under corruption.")]
        return self._section("shift", "Under shift", intro, parts)

    def calibration(self) -> Section:
        """Whether confidence can be believed, and what abstaining buys."""
        shown = [(self._label(role, item), item) for role, item in self.found.shown.items()]
        bins = [
            {"label": label, "kind": item.kind, "ece": item.test["ece"].mean, "bins": curve}
            for label, item in shown
            if "ece" in item.test and (curve := _columns(reliability_curve(item)))
        ]
        risks = [
            {"label": label, "kind": item.kind, **curve}
            for label, item in shown
            if (curve := _columns(risk_curve(item)))
        ]
        parts = [
            reliability_figure(bins, name=self._name("reliability"), title="Reliability on the test split"),
            risk_coverage_figure(risks, name=self._name("risk"), title="Error among the samples that are kept"),
        ]
        intro = "Whether a confidence of 90 % is right nine times in ten, and what passing the least sure to a human buys."
        missing = [] if any(parts) else [Note("No curves are known of what is compared.")]
        return self._section("calibration", "Can its confidence be believed?", intro, [*parts, *missing])

    def structure(self) -> Section:
        """Which N and K the trials liked."""
        configs = [item.config for item in self.trials if item.config.method.name == "sae" and item.state == "finished"]
        depth = max((config.backbone.depth for config in configs), default=0)
        inputs = max((getattr(config.method, "inputs", 0) for config in configs), default=0)
        figures = [
            grid_figure(
                [(objective(name, self.task), grid_means(self.trials, name, where)) for name in self.found.metrics],
                depth=depth,
                max_inputs=inputs,
                name=self._name(f"grid-{where}"),
                title=title,
            )
            for where, title in (("test", "Mean over trials, test split"), ("shift", "Mean over trials, corrupted test"))
            if depth
        ]
        intro = (
            "SAE's trials by the number of inputs N and of exits K they were trained for. Means over trials that differ in "
            "everything else: a sampler that liked a cell has been there often, with the best of the other settings."
        )
        parts = [figure for figure in figures if figure] or [Note("No SAE has finished yet.")]
        return self._section("structure", "Which N and K?", intro, parts)

    def depth(self) -> Section:
        """Which exits training came to prefer."""
        preferences = read_preferences(item.trial.run for item in self.trials if item.state == "finished")
        depth = max((preference.theta.shape[-1] for preference in preferences), default=0)
        several = sorted({item.inputs for item in preferences if item.inputs > 1})
        groups = [
            ("depth-all", "All SAE trials", depth_preference(preferences)),
            ("depth-inputs", "By the number of inputs N", depth_preference(preferences, "inputs")),
            ("depth-exits", "By the number of exits K", depth_preference(preferences, "exits")),
            *(
                (f"depth-{n}-inputs", f"Input by input, N={n}", input_preference(preferences, n))
                for n in several[-1:]
            ),
        ]
        figures = [
            depth_figure(rows, depth=depth, name=self._name(name), title=title) for name, title, rows in groups if rows
        ]
        intro = "The probability of each exit while training goes on; one over the number of exits means no preference."
        return self._section("depth", "Which depths?", intro, figures or [Note("No SAE has finished yet.")])

    def influence(self) -> Section:
        """What the settings of an SAE did to its numbers."""
        rows = influence(self.trials, [*self.found.metrics, *COSTS], "test")
        intro = (
            "Rank correlation (Spearman) for continuous settings, analysis of variance (F) for N, K and W, over SAE's "
            "trials, on the test split. A search does not try settings at random, so that none of it proves a cause."
        )
        parts = [influence_table(rows, name=self._name("influence"))] if any(row["p"] is not None for row in rows) else []
        missing = [] if parts else [Note("Too few SAE trials have finished to tell.")]
        return self._section("influence", "Which settings matter?", intro, [*parts, *missing])

    def listing(self) -> Section:
        """All that was tried."""
        metrics = list(dict.fromkeys([*self.found.metrics, *_metrics(self.found)]))
        table = trials_table(self.trials, metrics, self.task, name=self._name("trials"))
        return self._section("trials", "All trials", "At the K they were trained for, on validation.", [table])

    def _ranks(self, results: Sequence[Result]) -> list[Any]:
        return mean_ranks({self.found.data_name: results}, [*self.found.metrics, *COSTS], self.task, "shift")

    def _pairs(self) -> list[tuple[Objective, Objective]]:
        names = self.found.metrics
        quality, calibration, nll = (objective(name, self.task) for name in (names[0], names[1], "nll"))
        return usual_pairs(quality, calibration, nll)

    def _point(self, item: Candidate) -> dict[str, Any]:
        selection = self.found.selection
        assert selection is not None, "points are of a selection"
        return {
            "kind": item.kind,
            "label": item.trial.name,
            "settings": summary(item.config),
            "eval_exits": item.eval_exits,
            "front": any(item is other for other in selection.front),
            "pick": item is self.found.pick,
            "command": train_command(item.config),
            **item.values,
        }

    def _confirmed(self, item: Result, *, shifted: bool = False) -> dict[str, Any]:
        pick = self.found.pick
        measured = {f"{key}@shift": value for key, value in (item.shift or {}).items()} if shifted else item.test
        spreads = {**measured, **item.costs}
        return {
            "kind": item.kind,
            "label": item.label,
            "settings": item.settings,
            "eval_exits": item.eval_exits,
            "pick": pick is not None and (item.label, item.eval_exits) == (pick.trial.name, pick.eval_exits),
            "command": train_command(item.config),
            "seeds": len(item.runs),
            "values": {key: spread.mean for key, spread in spreads.items()},
            "stds": {key: spread.std for key, spread in spreads.items()},
        }

    def _losses(self) -> Iterable[str]:
        """What was left out, by its reason."""
        trials, selection = list(self.found.record.trials()), self.found.selection
        for name, reason in damages(trials, selection.everything if selection else []).items():
            yield f"Left out, damaged: {name}: {reason}"
        for name, reason in failures(trials).items():
            yield f"Failed: {name}: {reason}"

    def _search_intro(self) -> str:
        counts = trial_counts(self.found.record.trials())
        told = (
            f"{method} {', '.join(f'{count} {state}' for state, count in states.items() if count)}"
            for method, states in counts.items()
        )
        return f"Trials: {'; '.join(told) or 'none has begun'}. Everything here is of the validation split."

    def _label(self, role: str, item: Result) -> str:
        return f"{ROLES[role]}, {item.label}"

    def _name(self, name: str) -> str:
        return f"{self.prefix}{name}"

    def _section(self, name: str, title: str, intro: str, parts: Iterable[Part | None]) -> Section:
        return Section(self._name(f"{name}-section"), title, intro, tuple(part for part in parts if part is not None))


def _metrics(found: Findings) -> list[str]:
    """The study's objectives that are metrics of the clean validation split."""
    return [item.name for item in found.record.objectives if not item.is_cost and not item.is_shifted]


def _columns(curve: Any) -> dict[str, list[float]]:
    """Rows as lists by their keys; nothing where there is no curve."""
    return {key: [row[key] for row in curve.rows] for key in curve.rows[0]} if curve and curve.rows else {}
