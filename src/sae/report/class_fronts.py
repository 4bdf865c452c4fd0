"""What each class of methods can do by itself: the size of its own front, and what of it stands beside the others."""

from sae.analysis.candidates import Candidate, fronts_by_kind
from sae.analysis.selection import Selection
from sae.core.table import Cell, Column, Table, mark_best
from sae.report.kinds import LOOKS
from sae.report.metric_names import metric_column, unit_of


def class_fronts_table(selection: Selection, task: str, name: str = "class-fronts") -> Table:
    """A row for each class that was tried: its configurations, its own front, and its part of the front of all.

    Args:
        selection: What a study has to offer.
        task: What is predicted.
        name: Of the table.
    """
    first = selection.objectives[0]
    fronts = fronts_by_kind(selection.candidates, selection.objectives, selection.limits)
    best = {kind: min((item.values[first.name] for item in own), key=first.loss) for kind, own in fronts.items()}
    unit = unit_of(first.name)
    metric = metric_column(first.name, task, [value / unit for value in best.values()])
    heads = [Column("Class"), Column("Tried"), Column("On its own front"), Column("Of these on the front")]
    columns = (*heads, Column(f"Best {metric.title}", metric.better, metric.digits))
    rows = [
        (
            Cell(LOOKS[kind].name),
            Cell(sum(item.kind == kind for item in selection.candidates)),
            Cell(len(fronts.get(kind, []))),
            Cell(_shared(fronts.get(kind, []), selection.front)),
            Cell(best[kind] / unit if kind in best else None),
        )
        for kind in LOOKS
        if any(item.kind == kind for item in selection.candidates)
    ]
    caption = (
        "Configurations tried, a trial at each number of exits it can be read at being one; those that no other of the "
        f"same class beats{' within the limits' if selection.limits else ''}; how many of these no other class beats "
        "either; and the best of the class. Strong: the best of all."
    )
    return Table(name, "Fronts of the classes", caption, columns, mark_best(columns, rows))


def _shared(own: list[Candidate], overall: list[Candidate]) -> int:
    return sum(any(item is other for other in overall) for item in own)
