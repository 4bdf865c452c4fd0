"""The trained network as a type: its parts with their costs, and which exits its members use, at every K′."""

from collections.abc import Iterable
from typing import Self

from pydantic import Field, model_validator

from sae.records.evaluation import AtExits, Json, Part, PartCosts, check_recorded, find_exits


class Member(Part):
    """A prediction that takes part in the weighted mean.

    Attributes:
        input: The input that it belongs to, counted from 1; None where a network has no several inputs.
        exit: The exit that it leaves at, counted from 1.
        weight: Its weight; those of all members sum to 1.
    """

    input: int | None
    exit: int
    weight: float


class PrunedReading(AtExits):
    """A network pruned to K′ exits per input: what it consists of.

    Attributes:
        members: The predictions that are averaged.
        parts: Their costs sum to the costs of the network.
    """

    members: tuple[Member, ...]
    parts: tuple[PartCosts, ...]

    @property
    def total(self) -> PartCosts:
        """The costs of the network."""
        return total_of(self.parts)


class Network(Part):
    """What a trained network consists of.

    Attributes:
        exits: K, the exits per input that it was trained for.
        depth: D, the stages of its backbone.
        passes: How often its parts run for one sample; FLOPs are those of all passes.
        whole: The parts as trained, with every exit for every input.
        readings: One for each K′.
        uncut: Why the network cannot be cut between its exits, so that it is one part; None if it can be.
    """

    exits: int
    depth: int
    passes: int
    whole: tuple[PartCosts, ...]
    readings: tuple[PrunedReading, ...] = Field(alias="by_exits")
    uncut: str | None = Field(None, exclude_if=lambda reason: reason is None)

    @model_validator(mode="after")
    def _check_exits(self) -> Self:
        check_recorded(self.readings, [self.exits])
        return self

    def at(self, eval_exits: int) -> PrunedReading:
        """Return the network at K′ exits."""
        return find_exits(self.readings, eval_exits)

    def to_json(self) -> Json:
        """Return the content of the file."""
        return self.model_dump(mode="json", by_alias=True)


def total_of(parts: Iterable[PartCosts]) -> PartCosts:
    """Return the sum of the costs of parts."""
    listed = list(parts)
    return PartCosts(
        name="all",
        params=sum(part.params for part in listed),
        flops=sum(part.flops for part in listed),
        shipped_params=sum(part.shipped_params for part in listed),
        shipped_flops=sum(part.shipped_flops for part in listed),
    )
