"""The comparisons at the top of a report: the pick with its rivals, and each with the members of a deep ensemble."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sae.analysis.candidates import Network
from sae.analysis.contestants import Contestant, Scaling, scale
from sae.analysis.ensemble_equivalent import EnsembleEquivalent, ensemble_equivalent, member_losses
from sae.analysis.evidence import Evidence, corrected, gather_evidence
from sae.analysis.results import Result
from sae.core.errors import SaeError
from sae.core.objectives import TaskName


@dataclass(frozen=True)
class Headline:
    """Comparisons on the test split.

    Attributes:
        evidence: Comparisons of the pick with its rivals, by role, corrected for all of them.
        stronger: Comparisons with other confirmed configurations of the rivals' methods, by network, corrected for all
            of these.
        worth: The deep-ensemble equivalent of each network, by role.
        ensemble: The configuration of that ensemble; None if there is none with kept members.
        scalings: Each network after temperature scaling, by role.
    """

    evidence: Mapping[str, Sequence[Evidence]]
    stronger: Mapping[Network, Sequence[Evidence]]
    worth: Mapping[str, EnsembleEquivalent]
    ensemble: Result | None
    scalings: Mapping[str, Scaling]


def compare_headline(
    pick: str,
    shown: Mapping[str, Result],
    others: Sequence[Result],
    kept: Mapping[Network, Contestant],
    metrics: Sequence[str],
    task: TaskName,
) -> Headline:
    """Compare the pick with its rivals.

    Args:
        pick: Its role.
        shown: The pick and its rivals, by role.
        others: Other confirmed configurations of the rivals' methods.
        kept: Predictions of the configurations that have kept them.
        metrics: Names of the metrics to compare.
        task: Decides the direction of the metrics.
    """
    own = shown[pick]

    def compared(item: Result) -> list[Evidence]:
        both = kept.get(own.network), kept.get(item.network)
        return gather_evidence(own, item, both, metrics, task)

    ensemble = find_ensemble(own, [*shown.values(), *others], kept)
    return Headline(
        corrected({role: compared(item) for role, item in shown.items() if role != pick}),
        corrected({item.network: compared(item) for item in others}),
        _worth(shown, kept, ensemble),
        ensemble,
        {role: scale(kept[item.network]) for role, item in shown.items() if item.network in kept},
    )


def find_ensemble(pick: Result, found: Sequence[Result], kept: Mapping[Network, Contestant]) -> Result | None:
    """Return the deep ensemble that defines what networks are worth: on the same backbone, with kept members.

    An ensemble of the pick's width and depth is preferred; otherwise it is the first one given.
    """
    known = [item for item in found if (own := kept.get(item.network)) is not None and _num_members(own) > 1]
    alike = [item for item in known if item.config.backbone.name == pick.config.backbone.name]
    same = [item for item in alike if item.config.backbone == pick.config.backbone]
    return next(iter([*same, *alike]), None)


def _num_members(kept: Contestant) -> int:
    return min(0 if run.test.members is None else len(run.test.members) for run in kept.runs)


def _worth(
    shown: Mapping[str, Result], kept: Mapping[Network, Contestant], ensemble: Result | None
) -> dict[str, EnsembleEquivalent]:
    if ensemble is None:
        return {}
    rival, found = kept[ensemble.network], {}
    losses = member_losses(rival)
    for role, item in shown.items():
        own = kept.get(item.network)
        if own is not None and own is not rival:
            try:
                found[role] = ensemble_equivalent(own, rival, losses=losses)
            except SaeError:  # their samples differ
                continue
    return found
