"""Trained networks for readers: exits in use, the names that follow from them, and the plan of a network's parts.

K′ is the number of exits that each input may use. Exits of hardly any weight are dropped, so a network that was trained
with several exits may predict from only one of them. Its cost and its description follow from the exits in use.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sae.config.methods import all_kinds
from sae.config.run import RunConfig
from sae.core.parts import REST, exit_name, number_in, shown_name
from sae.core.wording import listed
from sae.records.evaluation import PartCosts
from sae.records.network import Network, PrunedReading, total_of


def used_exits(active: Sequence[int]) -> tuple[int, ...]:
    """Return the exits that any input uses, counted from 1.

    Args:
        active: Number of inputs that use each exit.

    Example:
        >>> used_exits((0, 2, 0, 1))
        (2, 4)
    """
    return tuple(number for number, inputs in enumerate(active, start=1) if inputs)


def exits_text(active: Sequence[int]) -> str:
    """Write the exits in use for a table, with the number of all exits.

    Example:
        >>> exits_text((0, 0, 0, 0, 1)), exits_text((1, 0, 1))
        ('5 of 5', '1, 3 of 3')
    """
    return f"{', '.join(map(str, used_exits(active)))} of {len(active)}"


def exits_over_seeds(uses: Iterable[Sequence[int]]) -> str:
    """Write the exits in use of several seeds, each choice once.

    Example:
        >>> exits_over_seeds([(0, 1), (0, 1), (1, 1)])
        '2 of 2 or 1, 2 of 2'
    """
    return " or ".join(dict.fromkeys(map(exits_text, uses)))


def read_at(active: Sequence[int]) -> str:
    """Write the exits in use for a sentence.

    Example:
        >>> read_at((0, 0, 1)), read_at((1, 0, 0)), read_at((1, 0, 1)), read_at((1, 1))
        ('read at its last exit (3 of 3)', 'read at exit 1 of 3', 'read at exits 1 and 3 of 3', 'read at both exits')
    """
    used, count = used_exits(active), len(active)
    if len(used) == 1:
        return (
            f"read at its last exit ({count} of {count})" if used[0] == count else f"read at exit {used[0]} of {count}"
        )
    if len(used) == count:
        return "read at both exits" if count == 2 else f"read at all {count} exits"
    return f"read at exits {listed([str(number) for number in used])} of {count}"


def describe_network(config: RunConfig, active: Sequence[int]) -> str:
    """Describe a network in a few words, `one network (N=1 K=5 W=1), read at its last exit (5 of 5)`.

    Args:
        config: How it was trained.
        active: Number of inputs that use each exit.
    """
    used = len(used_exits(active))
    phrase = all_kinds()[config.method.called_using(used, config.backbone.depth)].phrase
    reading = f", {read_at(active)}" if config.method.has_exits else ""
    return f"{phrase} ({config.summary}){reading}"


@dataclass(frozen=True)
class PlanPart:
    """A part of a network.

    Attributes:
        label: Its name for people, `stage 2`.
        cost: Its costs in the pruned network or, if it was pruned away, as trained; None if not counted separately.
        is_used: Whether the pruned network holds it.
    """

    label: str
    cost: PartCosts | None
    is_used: bool


@dataclass(frozen=True)
class PlanExit:
    """An exit, with the weight of each column's prediction at it.

    Attributes:
        part: Its connector and head; without costs if these are counted with other parts.
        weights: Weights by column; 0 if the prediction is not used.
    """

    part: PlanPart
    weights: tuple[float, ...]


@dataclass(frozen=True)
class PlanRow:
    """A part that runs after the one before it, with the exit behind it, if there is one."""

    part: PlanPart
    exit: PlanExit | None = None


@dataclass(frozen=True)
class NetworkPlan:
    """A trained network, for figures and tables.

    Attributes:
        name: Name of the run.
        kind: The key of its kind.
        settings: The settings that distinguish it, `N=2 K=3 W=4`.
        description: A description in a few words, by the exits that it uses.
        eval_exits: K′; None for methods without early exits, and for members that were chosen after training.
        depth: D, the stages of the backbone.
        num_inputs: How many copies of a sample it reads at once.
        passes: How often its parts run for one sample.
        columns: Names of the columns: `input 1` …, or `member 1` ….
        rows: The network from its stem down; empty for networks that share nothing.
        networks: Networks that share nothing, each as a whole; empty for one network.
        shares: The weight of each column over all exits.
        has_theta: Whether weights are θ*, which sums to 1 over the exits of an input; else they are member weights.
        used: The costs of the pruned network, the sum over all its parts.
        pruned: The costs of the parts that were pruned away.
    """

    name: str
    kind: str
    settings: str
    description: str
    eval_exits: int | None
    depth: int
    num_inputs: int
    passes: int
    columns: tuple[str, ...]
    rows: tuple[PlanRow, ...]
    networks: tuple[PlanPart, ...]
    shares: tuple[float, ...]
    has_theta: bool
    used: PartCosts
    pruned: PartCosts

    @property
    def parts(self) -> Iterator[PlanPart]:
        """All parts in the order in which they run."""
        yield from self.networks
        for row in self.rows:
            yield row.part
            if row.exit and row.exit.part.cost:
                yield row.exit.part

    @property
    def num_predictions(self) -> int:
        """Number of predictions that are averaged."""
        return sum(weight > 0 for row in self.rows if row.exit for weight in row.exit.weights) or len(self.networks)


def network_plan(network: Network, config: RunConfig, name: str, eval_exits: int) -> NetworkPlan:
    """Return the plan of a network at K′ exits.

    Args:
        network: Its recorded members and parts.
        config: The settings of its run.
        name: Name of the run.
        eval_exits: K′.
    """
    reading = network.at(eval_exits)
    inputs = [member.input for member in reading.members if member.input is not None]
    most = max([config.method.num_inputs, *inputs])
    word, num_columns = ("input", most) if inputs else (config.method.member_word, len(reading.members))
    names = [part.name for part in reading.parts]
    networks = tuple(
        replace(_part(reading, network, name), label=f"{word} {number}")
        for name in names
        if (number := number_in(name, "member"))
    )
    weights = _weights(reading, num_columns)
    shares = tuple(sum(row[column] for row in weights.values()) for column in range(num_columns))
    is_learnt = bool(inputs) and config.method.can_choose_exits
    has_theta = is_learnt and all(math.isclose(share, 1 / most, rel_tol=1e-5) for share in shares)
    if has_theta:
        weights = {number: tuple(most * weight for weight in row) for number, row in weights.items()}
    used, whole = reading.total, total_of(network.whole)
    return NetworkPlan(
        name=name,
        kind=config.called.key,
        settings=config.summary,
        description=describe_network(config, _active(reading, network.depth)),
        eval_exits=eval_exits if config.method.can_choose_exits else None,
        depth=network.depth,
        num_inputs=len(set(inputs)) or 1,
        passes=network.passes,
        columns=tuple(f"{word} {number + 1}" for number in range(num_columns)),
        rows=() if networks else tuple(_rows(reading, network, weights)),
        networks=networks,
        shares=shares,
        has_theta=has_theta,
        used=used,
        pruned=PartCosts(
            name="pruned",
            params=whole.params - used.params,
            flops=whole.flops - used.flops,
            shipped_params=whole.shipped_params - used.shipped_params,
            shipped_flops=whole.shipped_flops - used.shipped_flops,
        ),
    )


def _active(reading: PrunedReading, depth: int) -> list[int]:
    """Return the number of members at each exit."""
    return [sum(member.exit == number for member in reading.members) for number in range(1, depth + 1)]


def _weights(reading: PrunedReading, num_columns: int) -> dict[int, tuple[float, ...]]:
    """Return member weights by exit and column."""
    weights = {member.exit: [0.0] * num_columns for member in reading.members}
    for number, member in enumerate(reading.members):
        weights[member.exit][number if member.input is None else member.input - 1] += member.weight
    return {number: tuple(row) for number, row in weights.items()}


def _rows(reading: PrunedReading, network: Network, weights: Mapping[int, tuple[float, ...]]) -> Iterator[PlanRow]:
    """Yield the parts that are not exits, each with the exit behind it, including parts that were pruned away.

    A network may name its parts as it likes: an exit without a stage of its number comes last, and predictions
    behind a part that is not named as an exit leave at the last part.
    """
    names = list(dict.fromkeys(part.name for parts in (network.whole, reading.parts) for part in parts))
    named_exits = {number for name in names if (number := number_in(name, "exit")) is not None}
    trunk = {name: number_in(name, "stage") for name in names if number_in(name, "exit") is None}
    alone = sorted((named_exits | set(weights)) - set(trunk.values()))
    unnamed = [number for number in alone if number not in named_exits]
    last = [name for name in trunk if name != REST]
    if unnamed and last:
        trunk[last[-1]] = unnamed[-1]
    unused = (0.0,) * len(next(iter(weights.values())))
    for name, number in trunk.items():
        behind = None
        if number is not None and (number in named_exits or number in weights):
            behind = PlanExit(_part(reading, network, exit_name(number)), weights.get(number, unused))
        yield PlanRow(_part(reading, network, name), behind)
    for number in alone:
        if number in named_exits:
            part = _part(reading, network, exit_name(number))
            yield PlanRow(part, PlanExit(replace(part, cost=None), weights.get(number, unused)))


def _part(reading: PrunedReading, network: Network, name: str) -> PlanPart:
    """Return a part with its costs in the pruned network, or else as trained."""
    kept = {part.name: part for part in reading.parts}
    trained = {part.name: part for part in network.whole}
    is_used = name in kept or name not in trained  # predictions may leave at a part that is not named
    return PlanPart(shown_name(name), kept.get(name) or trained.get(name), is_used)
