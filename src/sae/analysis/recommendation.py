"""Recommendations: whether a study may say "Ship", or has only a provisional leader, or too little evidence.

- *Provisional*: a trial or a confirming run has not ended, because the study is running or was interrupted.
- *Too little evidence*: everything has ended, but fewer than `FEWEST_TRIALS` trials finished, or the pick was trained
  on fewer than `FEWEST_SEEDS` seeds that did not choose it.
- *Recommended*: neither. Only then the page and the commands say "Ship".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sae.analysis.candidates import Candidate
from sae.analysis.network_plan import describe_network
from sae.core.wording import count, listed
from sae.records.run import ENDINGS, Run
from sae.records.study import Plan

State = Literal["provisional", "too little evidence", "recommended"]
PROVISIONAL: State = "provisional"
TOO_LITTLE: State = "too little evidence"
RECOMMENDED: State = "recommended"
FEWEST_TRIALS = 5
"""Fewest finished trials for a recommendation."""
FEWEST_SEEDS = 2
"""Fewest new seeds that a pick must have been trained on."""


@dataclass(frozen=True)
class Recommendation:
    """The network that a study names, and whether it may recommend it.

    Attributes:
        state: Provisional, too little evidence, or recommended.
        why: What has not ended or is missing; empty if the network is recommended.
        pick: The network.
    """

    state: State
    why: str
    pick: Candidate

    @property
    def sentence(self) -> str:
        """The recommendation, or the reason against it with the best network so far."""
        network = describe_network(self.pick.config, self.pick.active)
        if self.state == RECOMMENDED:
            return f"Ship {self.pick.label}: {network}."
        if self.state == PROVISIONAL:
            return f"Provisional: {self.why}. So far {self.pick.label} leads: {network}."
        return f"Too little evidence to recommend a network: {self.why}. So far {self.pick.label} leads: {network}."

    def after(self, verdict: str | None) -> str:
        """Return the recommendation behind the verdict that a baseline is better, if it is: then no network to ship."""
        if verdict is None:
            return self.sentence
        network = describe_network(self.pick.config, self.pick.active)
        own = f"The best network is {self.pick.label}: {network}." if self.state == RECOMMENDED else self.sentence
        return f"{verdict} {own}"


def recommend(pick: Candidate, runs: Sequence[Run], plan: Plan | None, num_again: int) -> Recommendation:
    """Decide, by the rules above, whether a pick is recommended.

    Args:
        pick: The network that validation data chose.
        runs: All trials of the study, in any state.
        plan: The planned trials and runs; None for studies of older versions, which did not record them.
        num_again: Confirming runs that have ended.
    """
    open_ = _still_to_come(runs, plan, num_again)
    if open_:
        return Recommendation(PROVISIONAL, open_, pick)
    missing = _missing(pick, runs)
    return Recommendation(TOO_LITTLE if missing else RECOMMENDED, missing, pick)


def _still_to_come(runs: Sequence[Run], plan: Plan | None, num_again: int) -> str:
    """Return the counts of trials and runs that have ended; empty if all have."""
    ended = sum(run.state in ENDINGS for run in runs)
    if plan is None or plan.is_done:
        unfinished = sum(run.state == "unfinished" for run in runs)
        return f"{ended} of {count(len(runs), 'trial')} have ended" if unfinished else ""
    trials = f"{ended} of {count(plan.trials, 'trial')}" if plan.trials else f"{count(ended, 'trial')}"
    again = f" and {num_again} of {count(plan.again, 'confirming run')}" if plan.again else ""
    return f"{trials}{again} have ended"


def _missing(pick: Candidate, runs: Sequence[Run]) -> str:
    """Return what is missing for a recommendation; empty if nothing is."""
    finished = sum(run.state == "finished" for run in runs)
    seeds, found = len(pick.again), []
    if finished < FEWEST_TRIALS:
        found.append(f"{count(finished, 'trial')} finished (a choice needs {FEWEST_TRIALS})")
    if seeds < FEWEST_SEEDS:
        found.append(f"the leader was trained on {count(seeds, 'new seed')} (a recommendation needs {FEWEST_SEEDS})")
    return listed(found)
