"""Section about the picked network, and drawings of single runs: what a network consists of, and what it costs."""

import shlex
from collections.abc import Sequence

from sae.analysis.network_plan import NetworkPlan, network_plan
from sae.analysis.results import Result
from sae.core.errors import RecordError
from sae.core.table import Cell, Column, Table
from sae.core.wording import listed
from sae.records.evaluation import PartCosts
from sae.records.run import Run
from sae.report.content import Drawing, Note, Section, section
from sae.report.findings import Findings

COLUMNS = tuple(map(Column, ("Part", "Parameters", "FLOPs", "Shipped parameters", "Shipped FLOPs")))
NETWORK_TITLE = "What is in the network?"
CAPTION = "Costs are those of one sample, counted as in the paper."


def network_section(found: Findings) -> Section:
    """Show what the picked network consists of."""
    intro, name, title = "The picked network after training: what runs for one sample", "network", NETWORK_TITLE
    if found.pick is None:
        return section(name, title, "", Note("There is no network to draw yet."))
    plan = _plan(found.pick.shipped, found.pick.eval_exits)
    if not isinstance(plan, NetworkPlan):
        return section(name, title, "", plan or _not_recorded([found.pick.shipped]))
    drawing = Drawing("network", f"The pick, {plan.name}", CAPTION, plan)
    pruned = ", and what was left out because it is not used" if _has_pruned(plan) else ""
    return section(name, title, f"{intro}{pruned}.", drawing, parts_table(plan))


def run_drawings(compared: Sequence[tuple[str, Result]]) -> list[Drawing | Note]:
    """Draw the network of the first run of each configuration; say once which did not record it."""
    names = ["network"] if len(compared) == 1 else [f"network-{number + 1}" for number in range(len(compared))]
    plans = [_plan(item.runs[0], item.eval_exits) for _, item in compared]
    drawings = [
        Drawing(name, f"The network of {label}", CAPTION, plan)
        for name, (label, _), plan in zip(names, compared, plans, strict=True)
        if isinstance(plan, NetworkPlan)
    ]
    older = [item.runs[0] for (_, item), plan in zip(compared, plans, strict=True) if plan is None]
    notes = [plan for plan in plans if isinstance(plan, Note)]
    return [*drawings, *notes, *([_not_recorded(older)] if older else [])]


def parts_table(plan: NetworkPlan, name: str = "parts") -> Table:
    """List the parts of a network with their costs, their sum, and the costs of what was pruned away."""
    rows = [(part.label, part.cost) for part in plan.parts if part.is_used and part.cost]
    listed = tuple(_row(label, cost) for label, cost in rows)
    pruned = (_row("pruned away", plan.pruned),) if _has_pruned(plan) else ()
    folded = "the layer that reads several copies of a sample is folded to read it once, and "
    caption = (
        f"Shipped costs are those of the exported network: {folded if plan.num_inputs > 1 else ''}normalisation is "
        "fused into the layers before it."
    )
    return Table(
        name, "Parts of the network", caption, COLUMNS, (*listed, _row("all", plan.used, strong=True), *pruned)
    )


def _has_pruned(plan: NetworkPlan) -> bool:
    return bool(plan.pruned.params or plan.pruned.flops)


def _row(label: str, cost: PartCosts, strong: bool = False) -> tuple[Cell, ...]:
    numbers = (cost.params, cost.flops, cost.shipped_params, cost.shipped_flops)
    return (Cell(label, strong=strong), *(Cell(number, strong=strong) for number in numbers))


def _plan(run: Run, eval_exits: int) -> NetworkPlan | Note | None:
    """Return the plan of a run's network, why it cannot be read, or None if it was not recorded."""
    assert run.config is not None, "a finished run has a config"
    try:
        network = run.record.read_network()
    except RecordError as error:
        return Note(f"The network cannot be drawn: {error}.")
    return None if network is None else network_plan(network, run.config, run.label, eval_exits)


def _not_recorded(runs: Sequence[Run]) -> Note:
    """Say which runs are of an older version, and how to draw them."""
    folder = shlex.quote(str(runs[0].record.path)) if len(runs) == 1 else "RUN"
    labels = listed([run.label for run in runs])
    return Note(f"No drawing of {labels}, trained by an older version: `sae show {folder}` adds it to this page.")
