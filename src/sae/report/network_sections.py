"""Section about the picked network, and drawings of single runs: what a network consists of, and what it costs."""

import shlex
from collections.abc import Sequence

from sae.analysis.network_plan import NetworkPlan, network_plan
from sae.analysis.results import Result
from sae.core.errors import RecordError
from sae.core.table import Cell, Column, Table
from sae.records.evaluation import PartCosts
from sae.records.run import Run, RunRecord
from sae.report.content import Drawing, Note, Section, section
from sae.report.findings import Findings

COLUMNS = tuple(map(Column, ("Part", "Parameters", "FLOPs", "Shipped parameters", "Shipped FLOPs")))
CAPTION = "Costs are those of one sample, counted as in the paper."


def network_section(found: Findings) -> Section:
    """Show what the picked network consists of."""
    intro = "The picked network after training: what runs for one sample, and what was left out because it is not used."
    name, title = "network", "What is in the network?"
    if found.pick is None:
        return section(name, title, intro, Note("There is no network to draw yet."))
    plan = _plan(found.pick.run, found.pick.eval_exits)
    if isinstance(plan, Note):
        return section(name, title, intro, plan)
    drawing = Drawing("network", f"The pick, {plan.name}", CAPTION, plan)
    return section(name, title, intro, drawing, parts_table(plan))


def run_drawings(compared: Sequence[tuple[str, Result]]) -> list[Drawing | Note]:
    """Draw the network of the first run of each configuration."""
    parts: list[Drawing | Note] = []
    for number, (label, item) in enumerate(compared, start=1):
        plan = _plan(item.runs[0], item.eval_exits)
        name = "network" if len(compared) == 1 else f"network-{number}"
        title = f"The network of {label}"
        parts.append(plan if isinstance(plan, Note) else Drawing(name, title, CAPTION, plan))
    return parts


def parts_table(plan: NetworkPlan, name: str = "parts") -> Table:
    """List the parts of a network with their costs, their sum, and the costs of what was pruned away."""
    rows = [(part.label, part.cost) for part in plan.parts if part.is_used and part.cost]
    listed = tuple(_row(label, cost) for label, cost in rows)
    pruned = (_row("pruned away", plan.pruned),) if plan.pruned.params or plan.pruned.flops else ()
    caption = (
        "Shipped costs are those of the exported network: the layer that reads several copies of a sample is folded "
        "to read it once, and normalisation is fused into the layers before it."
    )
    return Table(
        name, "Parts of the network", caption, COLUMNS, (*listed, _row("all", plan.used, strong=True), *pruned)
    )


def _row(label: str, cost: PartCosts, strong: bool = False) -> tuple[Cell, ...]:
    numbers = (cost.params, cost.flops, cost.shipped_params, cost.shipped_flops)
    return (Cell(label, strong=strong), *(Cell(number, strong=strong) for number in numbers))


def _plan(run: Run, eval_exits: int) -> NetworkPlan | Note:
    """Return the plan of a run's network, or what to do where it was not recorded or cannot be read."""
    assert run.config is not None, "a finished run has a config"
    try:
        network = run.record.read_network()
    except RecordError as error:
        return Note(f"The network cannot be drawn: {error}.")
    if network is None:
        return Note(f"No drawing: {run.label} was trained by an older version. `{_command(run.record)}` adds it.")
    return network_plan(network, run.config, run.label, eval_exits)


def _command(record: RunRecord) -> str:
    return f"sae show {shlex.quote(str(record.path))}"
