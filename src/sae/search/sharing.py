"""Members that runs share: a smaller ensemble takes its first members from a larger one of the same networks."""

from collections.abc import Iterable
from dataclasses import replace

from sae.config.run import RunConfig
from sae.search.job import Job


def gives_members(source: RunConfig, config: RunConfig) -> bool:
    """Whether a run has all members of another one: it is a larger ensemble of the same networks.

    A standard network is also what an ensemble of one holds.
    """
    given, taken = source.method, config.method
    if taken.members_from != given.name:
        return False
    enough = taken.num_members + (taken.name == given.name)
    return given.num_members >= enough and source.model_copy(update={"method": taken}) == config


def with_sources(jobs: Iterable[Job]) -> list[Job]:
    """Order ensembles of most members first; smaller ones of the same networks take their members from them."""

    def order(job: Job) -> tuple[int, bool]:
        method = job.config.method
        return -method.num_members, method.members_from not in (None, method.name)

    ordered = sorted(jobs, key=order)
    return [
        replace(job, source=next((other.folder for other in ordered if gives_members(other.config, job.config)), None))
        for job in ordered
    ]
