"""A small report with a bit of everything."""

import altair as alt

from sae.config.methods import all_kinds
from sae.core.table import Cell, Column, Table
from sae.report.content import Chart, Command, Figure, Lead, Note, Report, Section, Term
from sae.report.labels import shape_of

COMMAND = "sae train --data pneumonia --set method.inputs=3 --set method.exits=2 --out runs/a-folder-with-a-long-name"
HOSTILE = "</script><script>document.title='broken'</script><b>&"


def scatter() -> Chart:
    """Marks of every kind, with a command to show; a ring on top."""
    rows = [
        {"x": index, "y": index % 4, "method": kind.label, "command": COMMAND}
        for index, kind in enumerate(all_kinds().values())
    ]
    names, kinds = [kind.label for kind in all_kinds().values()], all_kinds().values()
    base = alt.Chart(alt.Data(values=rows), height=150).encode(x="x:Q", y="y:Q")
    marks = base.mark_point(filled=True, size=150, opacity=1).encode(
        color=alt.Color("method:N", scale=alt.Scale(domain=names, range=[kind.colour for kind in kinds])),
        shape=alt.Shape("method:N", scale=alt.Scale(domain=names, range=[shape_of(kind) for kind in kinds])),
        tooltip=["method:N", "command:N"],
    )
    ring = base.transform_filter("datum.x == 2").mark_point(size=400, stroke="black")
    return alt.LayerChart(layer=[marks, ring])


def line() -> Chart:
    rows = [{"trials": trials, "share": 1 - 1 / trials} for trials in range(1, 6)]
    base = alt.Chart(alt.Data(values=rows), height=150)
    chart: alt.Chart = base.mark_line(color="black").encode(x="trials:Q", y="share:Q")
    return chart


def cells() -> Chart:
    rows = [{"N": n, "K": k, "nll": n / k, HOSTILE: HOSTILE} for n in (1, 2) for k in (1, 2, 3)]
    base = alt.Chart(alt.Data(values=rows)).encode(x="K:O", y="N:O")
    layers = [base.mark_rect().encode(color="nll:Q"), base.mark_text(color="black").encode(text="nll:Q")]
    return alt.LayerChart(layer=layers, title=HOSTILE)


def table(num_rows: int, name: str = "front") -> Table:
    """Scores go up and down with the rows; the second row has none."""
    columns = (Column("method"), Column("F1", "↑", digits=3), Column("FLOPs", "↓"), Column("how it was trained"))
    rows = tuple(
        (
            Cell(f"{HOSTILE} {row}"),
            Cell(None) if row == 1 else Cell((row * 7 % num_rows) / num_rows, 0.01, strong=row == 0),
            Cell(1000 * (row + 1)),
            Cell(COMMAND),
        )
        for row in range(num_rows)
    )
    return Table(name, f"Front {HOSTILE}", f"Caption {HOSTILE}", columns, rows)


def small_report() -> Report:
    lead = Lead(
        f"Take SAE with N = 2 and K = 3. {HOSTILE}",
        reasons=("It is as good as an ensemble.", f"Run `sae pick` {HOSTILE}"),
        receipt=table(3, "receipt"),
        commands=(Command(COMMAND, "Train it again:"), Command(f"echo {HOSTILE}", "Hostile:")),
    )
    figures = (
        Figure("search-quality", f"Search {HOSTILE}", "Hover.", (scatter(), line())),
        Figure("grid", "Grid", f"Darker is worse. {HOSTILE}", (cells(),)),
    )
    sections = (
        Section("search", f"What was found? {HOSTILE}", "All of it.", (*figures, Note(f"Three failed. {HOSTILE}"))),
        Section("front", "Which are the best?", "These.", (table(20),)),
    )
    terms = (Term("N", "How many inputs there are."), Term(f"K {HOSTILE}", f"How many exits, see `sae pick` {HOSTILE}"))
    return Report(f"pneumonia {HOSTILE}", ("60 trials", HOSTILE), lead, sections, terms)
