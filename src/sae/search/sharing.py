"""Members that runs share: a smaller ensemble takes its first members from a larger one of the same networks."""

from collections.abc import Iterable
from dataclasses import replace

from sae.config.run import EnsembleConfig, RunConfig, StandardConfig
from sae.search.job import Job


def num_members(config: RunConfig) -> int:
    """Networks in an ensemble; 1 for a standard network."""
    return config.method.members if isinstance(config.method, EnsembleConfig) else 1


def gives_members(source: RunConfig, config: RunConfig) -> bool:
    """Whether a run has all members of another one: it is a larger ensemble of the same networks.

    A standard network is also what an ensemble of one holds.
    """
    method = config.method
    if not isinstance(source.method, EnsembleConfig) or not isinstance(method, EnsembleConfig | StandardConfig):
        return False
    enough = num_members(config) + isinstance(method, EnsembleConfig)
    return num_members(source) >= enough and source.model_copy(update={"method": method}) == config


def with_sources(jobs: Iterable[Job]) -> list[Job]:
    """Ensembles of most members first; smaller ones of the same networks take their members from them."""
    ordered = sorted(jobs, key=lambda job: (-num_members(job.config), isinstance(job.config.method, StandardConfig)))
    return [
        replace(job, source=next((other.folder for other in ordered if gives_members(other.config, job.config)), None))
        for job in ordered
    ]
