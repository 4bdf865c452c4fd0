"""Results of the trainings: stored as JSON, and the tables of docs/reproduction.md made from them."""

import json
import math
from pathlib import Path
from statistics import mean, stdev

from pydantic import BaseModel

from benchmarks.one_network.measures import detected, measure_shift, milliseconds, shifted, shifted_difference
from benchmarks.one_network.queue import Queue
from benchmarks.one_network.rows import ADDITIONS, ENSEMBLE, LARGE, MATCHES, RIVALS, ROWS, SEEDS, SETS, TWINS, plain_of
from sae.analysis.bootstrap import compare_samples
from sae.analysis.contestants import Contestant, read_contestant
from sae.analysis.ensemble_equivalent import ensemble_equivalent
from sae.analysis.gap import gap_shares

STORED = Path(__file__).parents[2] / "docs" / "reproduction" / "one-network.json"
KEPT = ("nll", "nll_scaled", "accuracy", "f1", "ece", "ece_scaled", "cc_ece", "cc_ece_scaled", "brier")
COMPARED = ("nll_scaled", "nll", "cc_ece", "cc_ece_scaled", "accuracy")
UNDER_SHIFT = ("nll_scaled", "nll", "accuracy", "cc_ece", "cc_ece_scaled")
MARGIN = 0.01
"""A network matches if its scaled NLL is worse by at most this much, in nats; fixed before any test data were read."""
LARGEST_SHARE = 1 / 3
"""Largest share of the ensemble's FLOPs that a single network may take to be our best."""

CONTROLS = {"taught-standard", "long-standard", "well-taught-standard", "patient-standard"}
"""Standard networks that an ensemble taught; the best of them on validation data is the control of a taught SAE."""

SINGLES = ("standard", "long-alone")
"""Standard networks that no ensemble taught; the gap is measured from the better one on validation data."""
Difference = tuple[float, float, float]
"""A difference and the ends of its 95 % interval."""


class Found(BaseModel):
    """The reported results of a row.

    Attributes:
        rates: The scaled NLL on validation data of the seed for tuning, by learning rate; empty if it was not tuned.
        rate: The learning rate of the reported seeds.
        val_nll_scaled: Scaled NLL on validation data, by seed; the best single network is chosen by its mean.
        test: Metrics on test data, by name and seed.
        flops: FLOPs per sample of the pruned network, as the paper counts.
        shipped_flops: FLOPs per sample of the exported network.
        differences: Differences from the best ensemble on the same test samples, by metric.
        gap: The share of the gap between a standard network and the best ensemble that it closes, with the ends of its
            interval, by metric; both have their best number of epochs by validation. None where the gap may be 0, empty
            if it was not measured.
        rival_nll_scaled: Scaled NLL of that ensemble on test data, by seed; it identifies the compared training.
        from_plain: Difference in scaled NLL from the same network without the addition that the row tries.
        from_twin: Difference in scaled NLL of an SAE from the standard network that was trained in the same way.
        equivalent: The number of the ensemble's members with the same scaled NLL.
        seconds: Wall time of training on a busy machine, mean over seeds; 0 if it was derived.
        shift: Mean over the 95 corrupted sets, by metric and seed.
        shift_differences: Differences from the best ensemble under shift, for metrics that are means over samples.
        auroc: AUROC with which entropy detects images of another set, by seed.
        ms: Time in onnxruntime relative to the ensemble's, by batch size.
    """

    rates: dict[str, float]
    rate: float
    val_nll_scaled: list[float]
    test: dict[str, list[float]]
    flops: int
    shipped_flops: int
    differences: dict[str, Difference]
    gap: dict[str, Difference | None] = {}
    rival_nll_scaled: list[float] = []
    from_plain: Difference | None = None
    from_twin: Difference | None = None
    equivalent: float | str
    seconds: float = 0.0
    shift: dict[str, list[float]] = {}
    shift_differences: dict[str, Difference] = {}
    auroc: list[float] = []
    ms: dict[str, float] = {}

    @property
    def choice(self) -> float:
        """The criterion for choosing among rows: the mean of the scaled NLL on validation data, of seeds all have."""
        return mean(self.val_nll_scaled[: len(SEEDS)])


Results = dict[str, dict[str, Found]]
"""Results by set and row."""


def best_ensemble(found: dict[str, Found]) -> str:
    """Return the row of the best deep ensemble on validation data."""
    return min((row for row in RIVALS if row in found), key=lambda row: found[row].choice)


def best_single(found: dict[str, Found]) -> str:
    """Return the row of the best network on validation data that takes at most a third of the ensemble's FLOPs."""
    most = LARGEST_SHARE * found[ENSEMBLE].shipped_flops
    return min((row for row in found if found[row].shipped_flops <= most), key=lambda row: found[row].choice)


def best_sae(found: dict[str, Found]) -> str:
    """Return the row of the best SAE on validation data, whatever it costs."""
    return min((row for row in found if "sae" in row), key=lambda row: found[row].choice)


def collect(queue: Queue, earlier: dict[str, Found], *, measure: bool, time: bool) -> dict[str, Found]:
    """Return the results of every row: measured again if all its seeds are trained here, else the earlier ones.

    Args:
        queue: The trainings.
        earlier: Earlier results; measurements of the same training are kept.
        measure: Whether to measure under shift and on another set, where that was not done before.
        time: Whether to measure times.
    """
    rows = [row for row in ROWS if queue.is_done(row)]
    sides = {row: contestant(queue, row) for row in rows}
    found = {row: _read(queue, row, sides) for row in rows}
    known = {**earlier, **found}
    rival = best_ensemble(known)
    assert rival in sides, f"train {rival} again: every row is compared with it"
    for row, item in found.items():
        compared = compare_samples(sides[row], sides[rival], COMPARED)
        item.differences = {each.metric: (each.value, each.low, each.high) for each in compared}
        item.rival_nll_scaled = found[rival].test["nll_scaled"]
        single = min((own for own in SINGLES if own in known), key=lambda own: known[own].choice)
        if single in sides and row not in (single, rival):
            shares = gap_shares(sides[single], sides[row], sides[rival])
            item.gap = {
                key: None if each is None else (each.share, each.low, each.high) for key, each in shares.items()
            }
        before = earlier.get(row)
        if before and is_same_training(before, item):
            item.shift, item.shift_differences = before.shift, before.shift_differences
            item.auroc, item.ms = before.auroc, before.ms
            item.from_plain = item.from_plain or before.from_plain
            item.from_twin = item.from_twin or before.from_twin
    chosen = {ENSEMBLE, rival, best_single(known), best_sae(known), "standard"}  # the rows of the first table
    rows = [row for row in rows if row in chosen]
    if measure:
        _measure(queue, {row: found[row] for row in rows if not found[row].shift}, rival)
    if time:
        times = milliseconds(queue, rows)
        print("time of the ensemble, measured again:", times["control"])
        for row in rows:
            found[row].ms = times[row]
    return {row: found.get(row) or earlier[row] for row in ROWS if row in found or row in earlier}


def is_same_training(one: Found, other: Found) -> bool:
    """Return whether two results are of the same networks; on another processor a training gives others."""
    return _are_close(one.test["nll"], other.test["nll"])


def _are_close(one: list[float], other: list[float]) -> bool:
    """Return whether numbers by seed are of the same networks, up to rounding."""
    return len(one) == len(other) and all(math.isclose(*pair, rel_tol=1e-6) for pair in zip(one, other, strict=True))


def contestant(queue: Queue, row: str) -> Contestant:
    """Return the runs of a row, to compare them sample by sample."""
    return read_contestant(
        [queue.folder(row, queue.best_rate(row), seed) for seed in queue.seeds(row)], as_trained=True
    )


def _read(queue: Queue, row: str, sides: dict[str, Contestant]) -> Found:
    rate = queue.best_rate(row)
    splits = [queue.read(row, rate, seed) for seed in queue.seeds(row)]
    worth = ensemble_equivalent(sides[row], sides[ENSEMBLE])

    def distance(other: str | None) -> Difference | None:
        """Return the difference from another row in scaled NLL, if that row is trained."""
        if other not in sides:
            return None
        [found] = compare_samples(sides[row], sides[other], ["nll_scaled"])
        return found.value, found.low, found.high

    return Found(
        rates={} if ROWS[row].rate_of else {f"{each:g}": queue.val_nll(row, each) for each in queue.rates(row)},
        rate=rate,
        val_nll_scaled=[item.val.metrics["nll_scaled"] for item in splits],
        test={key: [item.test.metrics[key] for item in splits] for key in KEPT},
        flops=splits[0].test.flops,
        shipped_flops=splits[0].test.shipped_flops,
        differences={},
        from_plain=distance(plain_of(row)),
        from_twin=distance(TWINS.get(row)),
        seconds=mean(queue.seconds(row, rate, seed) for seed in queue.seeds(row)),
        equivalent=worth.exact(worth.members),
    )


def _measure(queue: Queue, found: dict[str, Found], rival: str) -> None:
    """Measure some rows under shift, and on another set if there is one; compare them with the best ensemble."""
    measure_shift(queue, list({rival: None, **found}))
    under = {row: [shifted(queue, row, seed) for seed in queue.seeds(row)] for row in {rival: None, **found}}
    other = SETS[queue.name].other
    for row, item in found.items():
        item.shift = {key: [each.mean(key) for each in under[row]] for key in UNDER_SHIFT}
        if other:
            item.auroc = [detected(queue, row, seed, other) for seed in queue.seeds(row)]
        print(f"{row}: scaled NLL under shift {mean(item.shift['nll_scaled']):.4f}", flush=True)
    for row, item in found.items():
        item.shift_differences = {
            key: shifted_difference(under[row], under[rival], key) for key in ("nll_scaled", "nll")
        }


def answer(results: Results) -> str:
    """Return the first table, a column for each set: does the best single network match the best ensemble?"""
    columns = {SETS[name].title: _answer(results[name]) for name in MATCHES if name in results}
    head = [f"| | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    names = next(iter(columns.values()))
    return "\n".join(
        [*head, *(f"| {line} | {' | '.join(cells[line] for cells in columns.values())} |" for line in names)]
    )


def _answer(found: dict[str, Found]) -> dict[str, str]:
    """Return the first table's cells of one set by the name of their line."""
    row, rival = best_single(found), best_ensemble(found)
    own, control = found[row], min(CONTROLS & found.keys(), key=lambda key: found[key].choice)
    return {
        "the ensemble: NLL, scaled": f"{ROWS[rival].title}: {mean(found[rival].test['nll_scaled']):.4f}",
        "the network, best on validation data": ROWS[row].title,
        "does it match?": matches(own),
        "difference in NLL, scaled": difference(own.differences["nll_scaled"]),
        "in CC-ECE, scaled": difference(own.differences["cc_ece_scaled"]),
        "share of the gap to a standard network that it closes": _gap(own, "nll_scaled"),
        "in NLL as trained": difference(own.differences["nll"]),
        "in CC-ECE as trained": difference(own.differences["cc_ece"]),
        "in NLL, scaled, under shift": difference(own.shift_differences["nll_scaled"]) + _shift_rival(found)
        if own.shift_differences
        else "not measured",
        "FLOPs": f"{own.shipped_flops / found[ENSEMBLE].shipped_flops:.2f} ×",
        "ms: one sample, 64 at once": ", ".join(f"{ratio:.2f} ×" for ratio in own.ms.values()) or "not measured",
        "the best distilled standard network: difference in NLL, scaled": "the same network"
        if control == row
        else difference(found[control].differences["nll_scaled"]),
    }


def _gap(own: Found, metric: str) -> str:
    """Return a share of the gap in per cent."""
    if metric not in own.gap:
        return "not measured"
    share = own.gap[metric]
    return "the gap may be 0" if share is None else "{:.0%} ({:.0%} to {:.0%})".format(*share)


def claims(results: Results) -> str:
    """Return what the first table leaves out, a point for each set: the best SAE and the standard network."""
    lines = []
    for name in (name for name in MATCHES if name in results):
        found = results[name]
        rows = {best_sae(found), "standard"} - {best_single(found)}
        lines.append(f"- **{SETS[name].title}**, against the {ROWS[best_ensemble(found)].title}:")
        lines += [_claim(row, found) for row in found if row in rows]
    return "\n".join(lines)


def _claim(row: str, found: dict[str, Found]) -> str:
    """Return the results of one row in a sentence; every number is a stored one."""
    own = found[row]
    mark = f" ({_mark(own, found)}, below)" if _mark(own, found) else ""
    parts = [f"{_verdict(own)}{mark}, {plain(own.differences['nll_scaled'])} in NLL after temperature scaling"]
    calibration = [plain(own.differences[key]) for key in ("cc_ece_scaled", "cc_ece")]
    parts.append(f"{calibration[0]} in CC-ECE after scaling, {calibration[1]} as trained")
    if own.shift_differences:
        shifted_by = plain(own.shift_differences["nll_scaled"])
        parts.append(f"{shifted_by} in scaled NLL under shift{_shift_rival(found)}")
    share = own.shipped_flops / found[ENSEMBLE].shipped_flops
    return f"  - {ROWS[row].title}, at {share:.2f} of its FLOPs: {'; '.join(parts)}."


def _verdict(found: Found) -> str:
    return {"yes": "matches", "no": "does not match"}.get(matches(found), "not enough evidence to tell")


def _mark(item: Found, found: dict[str, Found]) -> str:
    """Return the mark of a row that was compared with another ensemble than the best: the plain or an earlier one."""
    if _are_close(item.rival_nll_scaled, found[best_ensemble(found)].test["nll_scaled"]):
        return ""
    return "‡" if _are_close(item.rival_nll_scaled, found[ENSEMBLE].test["nll_scaled"]) else "†"


def _shift_rival(found: dict[str, Found]) -> str:
    """Return a note where the best ensemble was not measured under shift, so that the plain one took its place."""
    return "" if found[best_ensemble(found)].shift else f", against the {ROWS[ENSEMBLE].title}"


def matches(found: Found) -> str:
    """Return whether a network is within the margin: yes, no if it is worse than the ensemble, or that nobody knows."""
    _, low, high = found.differences["nll_scaled"]
    return "yes" if high < MARGIN else "no" if low > 0 else "cannot tell"


def table(name: str, results: Results) -> str:
    """Return the table of one set, with all rows."""
    found = results[name]
    rival, single = best_ensemble(found), best_single(found)
    columns = [SETS[name].title, "NLL, scaled", "difference, 95 %", "matches", "worth in plain members"]
    columns += ["NLL", "CC-ECE", "accuracy", "NLL, scaled, under shift", "FLOPs", "ms", "lr"]
    if SETS[name].other:
        columns.insert(-3, f"AUROC, {SETS[name].other}")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for row, item in found.items():
        mark = _mark(item, found)
        title = f"{ROWS[row].title} {mark}".strip()
        cells = [
            f"**{title}**" if row == single else f"*{title}*" if row == rival else title,
            spread(item.test["nll_scaled"], 4),
            "" if row == rival else f"{difference(item.differences['nll_scaled'])} {mark}".strip(),
            "" if row == rival else matches(item),
            shown(item.equivalent),
            spread(item.test["nll"], 4),
            spread(item.test["cc_ece"], 4),
            spread(item.test["accuracy"], 4),
            spread(item.shift["nll_scaled"], 3) if item.shift else "",
            f"{item.shipped_flops / found[ENSEMBLE].shipped_flops:.2f} ×",
            ", ".join(f"{ratio:.2f} ×" for ratio in item.ms.values()),
            f"{item.rate:g}",
        ]
        if SETS[name].other:
            cells.insert(-3, spread(item.auroc, 3) if item.auroc else "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def ablation(results: Results) -> str:
    """Return the table of additions: what each changes in scaled NLL, on each set, for each kind of network."""
    names = [name for name in LARGE if name in results]
    kinds = {"standard": "standard", "sae-1x5": "SAE, N=1 K=5"}
    columns = ["addition", *(f"{SETS[name].data}, {kind}" for name in names for kind in kinds.values())]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for title, rows in ADDITIONS.items():
        cells = []
        for name in names:
            for kind in kinds:
                item = results[name].get(rows.get(kind, ""))
                cells.append(difference(item.from_plain) if item and item.from_plain else "")
        if any(cells):
            lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def against_standard(results: Results) -> str:
    """Return the table of SAEs against the standard networks that were trained alike."""
    names = [name for name in MATCHES if name in results]
    columns = ["SAE − standard network, NLL, scaled", *(SETS[name].data for name in names)]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for row in TWINS:
        found = [results[name][row].from_twin if row in results[name] else None for name in names]
        if any(found):
            lines.append(f"| {ROWS[row].title} | {' | '.join(difference(each) if each else '' for each in found)} |")
    return "\n".join(lines)


def plain(found: Difference) -> str:
    """Return a difference with its interval."""
    value, low, high = (round(number, 4) + 0.0 for number in found)  # the sum turns −0 into 0
    return f"{value:+.4f} ({low:+.4f} to {high:+.4f})"


def behind(found: Difference) -> str:
    """Return a difference with its interval in words, as README quotes it."""
    value, low, high = (f"{number:.4f}".replace("-", "−") for number in found)
    return f"{value} nats behind ({low} to {high})"


def difference(found: Difference) -> str:
    """Return a difference with its interval, in bold if that does not hold 0."""
    _, low, high = found
    return f"**{plain(found)}**" if low > 0 or high < 0 else plain(found)


def spread(values: list[float], digits: int) -> str:
    """Return mean ± standard deviation over seeds."""
    return f"{mean(values):.{digits}f} ± {stdev(values):.{digits}f}"


def shown(members: float | str) -> str:
    """Return a number of members."""
    return members if isinstance(members, str) else f"{members:.1f}"


def read_results(path: Path = STORED) -> Results:
    """Return the stored results."""
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {name: {row: Found.model_validate(item) for row, item in rows.items()} for name, rows in stored.items()}


def store(results: Results) -> None:
    """Store the results."""
    stored = {name: {row: item.model_dump() for row, item in rows.items()} for name, rows in results.items()}
    STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
