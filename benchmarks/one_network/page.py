"""The tables in docs/reproduction.md, each between two comments, and README's picture, from stored results."""

from statistics import mean

import altair as alt

from benchmarks.one_network.regimes import read_map, regime_differences, regime_table
from benchmarks.one_network.results import (
    STORED,
    ablation,
    against_standard,
    answer,
    best_ensemble,
    best_single,
    claims,
    read_results,
    table,
)

FIGURE = STORED.with_suffix(".png")
NAMED = {
    "ensemble": "deep ensemble of 4",
    "long-ensemble": "deep ensemble of 4, for longer",
    "standard": "standard network",
    "sae-1x5": "SAE, 5 exits",
    "taught-standard": "standard, taught",
    "taught-sae-1x5": "SAE, taught by the ensemble",
    "well-taught-standard": "standard,\ntaught for longer",
    "well-taught-sae-1x5": "SAE, taught for longer",
}
"""Names of the rows in the picture, for readers who do not know the paper."""
LABELS = {"standard": (-8, -6), "SAE": (8, 0), "ensemble": (-8, -8)}
"""How far the names are from their points: nothing else is left of standard networks and right of SAEs."""


def tables() -> dict[str, str]:
    """Return every table by the name in its comment."""
    results = read_results()
    rows = {name: table(name, results) for name in results}
    return {
        "claims": claims(results),
        "answer": answer(results),
        **rows,
        "ablation": ablation(results),
        "twins": against_standard(results),
        **({"regimes": regime_table(), "regime-differences": regime_differences()} if read_map() else {}),
    }


def draw_front(name: str = "fashion-fc") -> None:
    """Draw scaled NLL against FLOPs, with the pick, the ensemble and the standard network named."""
    found = read_results()[name]
    whole, pick = found["ensemble"].shipped_flops, best_single(found)
    points = [
        {
            "flops": found[row].shipped_flops / whole,
            "nll": mean(found[row].test["nll_scaled"]),
            "low": min(found[row].test["nll_scaled"]),
            "high": max(found[row].test["nll_scaled"]),
            "name": f"our pick: {text}" if row == pick else text,
            "kind": "ensemble" if "ensemble" in row else "SAE" if "sae" in row else "standard",
        }
        for row, text in NAMED.items()
        if row in found
    ]
    base = alt.Chart(alt.Data(values=points)).encode(
        x=alt.X("flops:Q", title="FLOPs, as a share of the ensemble's", scale=alt.Scale(domain=[0, 1.05])),
        y=alt.Y("nll:Q", title="test NLL after temperature scaling", scale=alt.Scale(zero=False)),
        color=alt.Color(
            "kind:N",
            scale=alt.Scale(domain=["ensemble", "standard", "SAE"], range=["#4c78a8", "#767676", "#d62728"]),
            legend=None,
        ),
    )
    best = [{"nll": mean(found[best_ensemble(found)].test["nll_scaled"])}]
    level = alt.Chart(alt.Data(values=best)).mark_rule(strokeDash=[4, 3], color="#4c78a8").encode(y="nll:Q")
    labels = [
        base.transform_filter(f"datum.kind == '{kind}'")
        .mark_text(align="left" if dx > 0 else "right", dx=dx, dy=dy, baseline="middle", fontSize=11, lineBreak="\n")
        .encode(text="name:N")
        for kind, (dx, dy) in LABELS.items()
    ]
    spans = base.mark_rule().encode(y="low:Q", y2="high:Q")
    title = alt.TitleParams(
        "One network against four: Fashion-MNIST",
        subtitle="10,000 test images; the mean of three seeds, and their range. Lower is better. "
        "Validation data chose the pick.",
        anchor="start",
    )
    figure = alt.layer(level, spans, base.mark_point(filled=True, size=70), *labels)
    figure.properties(width=560, height=280, title=title).save(FIGURE, ppi=144)
