"""Lead of a report: which network to ship, how it compares, its receipt, and the commands to ship it."""

import shlex
from collections.abc import Sequence

from sae.analysis.evidence import Evidence
from sae.analysis.recommendation import RECOMMENDED
from sae.analysis.results import Tested
from sae.analysis.statistics import ALIKE, BETTER, LEVEL, UNKNOWN, WORSE
from sae.core.objectives import metric_label, metrics_of
from sae.core.wording import count, listed
from sae.records.receipt import PICK
from sae.report.commands import train_command
from sae.report.content import Command, Lead
from sae.report.findings import Findings, role_label
from sae.report.receipt import receipt_table, worth_range

COMPARED_ON: tuple[Tested, ...] = ("test", "shift")
LIKE_SHIPPED = 0.1
"""Share by which the mean cost over seeds may differ from that of the network to ship without a word."""


def study_lead(found: Findings) -> Lead:
    """Write the recommendation of a study, or what is missing for one."""
    recommendation = found.recommendation
    if recommendation is None:
        return _empty_lead(found)
    first, *others = [*claims(found), ""]
    compared = (worth_text(found), first, other_exits(found), cheaper_rival(found))
    sentence = " ".join(filter(None, [recommendation.after(found.verdict), *compared]))
    reasons = (*filter(None, others), *stronger_rivals(found), f"Chosen on validation: {found.why}.", *caveats(found))
    return Lead(sentence, reasons, receipt_table(found), ship_commands(found), rules=tuple(_how_compared(found)))


def _empty_lead(found: Findings) -> Lead:
    folder = shlex.quote(str(found.record.path))
    again = Command(f"sae search … --out {folder}", "Continue the search.")
    if found.candidates:  # but none of them can be chosen
        again = Command(f"sae pareto {folder} --max NAME=NUMBER", "See the Pareto front within other limits.")
    missing = f"{found.missing[:1].upper()}{found.missing[1:]}."
    return Lead("Nothing can be recommended yet.", (missing,), None, (again,))


def worth_text(found: Findings) -> str:
    """Say how many members of a deep ensemble the pick is worth; nothing where that is not known."""
    worth, ensemble = found.headline.worth.get(PICK), found.headline.ensemble
    if worth is None or ensemble is None:
        return ""
    name = f"the deep ensemble {ensemble.label} ({ensemble.settings})"
    if worth.is_open:
        return f"There is not enough evidence to tell how many members of {name} it is worth."
    return f"It is worth {worth_range(worth)} of {name}."


def claims(found: Findings) -> list[str]:
    """Compare the pick with each rival, on the test split and, where measured, under corruption.

    For example: `It is better than the best deep ensemble in NLL, with no significant difference in F1 (2 seeds, 540
    test samples), and needs 1/21.6 of its FLOPs.`
    """
    told = []
    for role, evidence in found.headline.evidence.items():
        name, ratio = f"the {role_label(role)}", 1 / _flops_ratio(found, role)
        clean, shifted = ([item for item in evidence if item.where == where] for where in COMPARED_ON)
        if not clean:
            few = min(len(found.shown[PICK].runs), len(found.shown[role].runs)) < 2
            why = "one seed is too few to tell which is better" if few else "no metric is known for both"
            told.append(f"It {_needs_text(ratio, name)}; {why}.")
        elif all(item.verdict == UNKNOWN for item in clean):
            metrics = listed([metric_label(item.metric) for item in clean])
            told.append(
                f"It {_needs_text(ratio, name)}; there is not enough evidence to tell which is better in {metrics} "
                f"({_basis_text(clean)})."
            )
        else:
            told.append(f"It {verdicts(clean, name)} ({_basis_text(clean)}), and {_needs_text(ratio)}.")
        if shifted:
            told.append(f"Under corruption it {verdicts(shifted, name)} ({_basis_text(shifted)}).")
    return told


def _basis_text(evidence: Sequence[Evidence]) -> str:
    """Write what a comparison rests on: `2 seeds, 540 test samples`, or `4 and 3 seeds`."""
    own, other = evidence[0].seeds
    seeds = count(own, "seed") if own == other else f"{own} and {other} seeds"
    samples = min((item.samples for item in evidence if item.samples is not None), default=None)
    return seeds if samples is None else f"{seeds}, {samples:,} test samples"


def verdicts(evidence: Sequence[Evidence], name: str) -> str:
    """Say in which metrics the pick is better, worse or not significantly different, and where that cannot be told.

    For example: `is better than NAME in F1 and worse in NLL, with not enough evidence to tell in CC-ECE`.
    """
    better, worse, alike, unknown = (
        listed([metric_label(item.metric) for item in evidence if item.verdict == verdict])
        for verdict in (BETTER, WORSE, ALIKE, UNKNOWN)
    )
    rest = [f"no significant difference in {alike}"] * bool(alike)
    rest += [f"not enough evidence to tell in {unknown}"] * bool(unknown)
    if better or worse:
        first, second = ("better", worse) if better else ("worse", "")
        clause = f"is {first} than {name} in {better or worse}" + (f" and worse in {second}" if second else "")
        return clause + (f", with {listed(rest)}" if rest else "")
    if alike:
        more = f", and there is not enough evidence to tell in {unknown}" if unknown else ""
        return f"shows no significant difference from {name} in {alike}{more}"
    return f"may be better or worse than {name} in {unknown}: there is not enough evidence to tell"


def other_exits(found: Findings) -> str:
    """Say so if the networks behind the metrics cost more or less than the one to ship: each seed learns its exits."""
    mean = found.shown[PICK].costs["flops"].mean
    ratio = mean / found.chosen[PICK].values["flops"]
    if abs(ratio - 1) <= LIKE_SHIPPED:
        return ""
    return (
        "But trained on other seeds it uses other exits: the networks that were compared need on average "
        f"{ratio:.3g} times the FLOPs of the one to ship."
    )


def cheaper_rival(found: Findings) -> str:
    """Return a warning if a rival costs less and is not shown to be worse in any metric."""
    for role, evidence in found.headline.evidence.items():
        found_verdicts = {item.verdict for item in evidence}
        ratio = _flops_ratio(found, role)
        if ratio < 1 and evidence and BETTER not in found_verdicts:
            how = "there is not enough evidence that it is worse" if UNKNOWN in found_verdicts else "it is not worse"
            return f"But the {role_label(role)} needs only {ratio_text(ratio)} its FLOPs, and {how} in any metric."
    return ""


def stronger_rivals(found: Findings) -> list[str]:
    """Name the confirmed rivals that are not the best on validation, but better than the pick."""
    told = []
    for item in found.other_rivals:
        evidence = found.headline.stronger[item.network]
        for where, place in zip(COMPARED_ON, ("", " under corruption"), strict=True):
            better = [metric_label(one.metric) for one in evidence if one.where == where and one.verdict == WORSE]
            told += [f"{item.label} ({item.settings}) is better than it in {listed(better)}{place}."] if better else []
    return told


def _flops_ratio(found: Findings, role: str) -> float:
    """Return the FLOPs of a role as a multiple of the pick's."""
    return found.chosen[role].values["flops"] / found.chosen[PICK].values["flops"]


def _needs_text(ratio: float, name: str = "") -> str:
    """Write the FLOPs of the pick as a multiple of a rival's, which is named, or was named before."""
    if f"{ratio:.3g}" == "1":
        return f"needs as many FLOPs{name and f' as {name}'}"
    return f"needs {ratio_text(ratio)} {f'the FLOPs of {name}' if name else 'its FLOPs'}"


def ratio_text(ratio: float) -> str:
    """Write a ratio for people.

    Example:
        >>> ratio_text(0.05), ratio_text(0.9)
        ('1/20 of', '0.9 times')
    """
    return f"1/{1 / ratio:.3g} of" if ratio < 0.5 else f"{ratio:.3g} times"


def caveats(found: Findings) -> tuple[str, ...]:
    """Return what a reader should know before trusting the numbers."""
    own = [role_label(role) for role, item in found.shown.items() if not found.is_confirmed(item)]
    told = []
    if not found.confirmed:
        told.append("Nothing was confirmed on new seeds: all numbers are from the one seed that the search chose by.")
    else:
        told.append("Test numbers are means ± standard deviations over seeds that the search did not use.")
        told += [f"Not confirmed on new seeds, so measured on the search's own seed: {listed(own)}."] if own else []
    told += [
        f"{role_label(role).capitalize()} failed on {item.failed} of {item.failed + len(item.runs)} seeds."
        for role, item in found.shown.items()
        if item.failed
    ]
    told += [f"Left out because it is damaged: {reason}." for reason in found.lost.values()]
    if found.is_receipt_of_others:
        told.append("Time is not shown: the receipt of the shipped model is about other networks. Export again.")
    elif found.receipt is None:
        told.append("Time was not measured: the pick has not been shipped from this study yet.")
    return tuple(told)


def _how_compared(found: Findings) -> list[str]:
    """Say by which rules networks were called better, worse or alike."""
    evidence = [item for items in found.headline.evidence.values() for item in items]
    if not evidence or not found.confirmed:
        return []
    margins = listed([f"{margin_text(name, found.task)} of {metric_label(name)}" for name in found.metrics])
    told = [
        f"“Better” and “worse” mean p < {LEVEL:g} after Holm's correction for the {count(len(evidence), 'comparison')} "
        "with the best rivals. “No significant difference” is said only where the 95 % interval is no wider than the "
        f"smallest difference that matters ({margins}); where it is wider, there is not enough evidence to tell."
    ]
    by_samples = [item for item in evidence if item.samples is not None]
    if by_samples:
        told.append(
            "Clean results are compared sample by sample: 95 % intervals over test samples (by a paired bootstrap) and "
            "seeds (by t quantiles). With two seeds they are wide; with one they leave out the choice of the seed."
        )
    if any(item.samples is None and item.where == "test" for item in evidence):
        told.append(
            "Where predictions for each sample were not kept, only the means over seeds are compared (Welch's "
            "interval), which leaves out the choice of the test samples: `sae evaluate RUN --keep-predictions` adds "
            "them."
        )
    if any(item.where == "shift" for item in evidence):
        told.append("Results under corruption are compared by their means over seeds alone (Welch's interval).")
    return told


def margin_text(metric: str, task: str) -> str:
    """Write the smallest difference of a metric that matters: `0.01`, or `2 %` of an error in the target's unit."""
    entry = metrics_of(task)[metric]
    return f"{entry.margin:.3g}" if not entry.power else f"{entry.margin:.3%}".replace(".000%", " %")


def ship_commands(found: Findings) -> tuple[Command, ...]:
    """Return the commands to type next."""
    assert found.pick is not None, "only a pick can be shipped"
    folder = shlex.quote(str(found.record.path))
    is_ready = found.recommendation is not None and found.recommendation.state == RECOMMENDED
    verb = "Ship" if is_ready else "Export"
    return (
        Command(
            f"sae export {folder} --out shipped/model.onnx",
            f"{verb} it: an ONNX file, its manifest and its receipt.",
        ),
        Command("sae predict shipped/model.onnx DATA --out predictions.csv", "Predict with that file, without torch."),
        Command(train_command(found.pick.config), "Train it again."),
    )
