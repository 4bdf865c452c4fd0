"""Exits in use: what a trained network is called by the exits that its prediction really comes from.

K′ is how many exits each input may use. Exits of hardly any weight are dropped, so a network that was trained with
several exits may predict from one of them only. What it costs, and what it is, follows from the exits in use.
"""

from collections.abc import Iterable, Sequence

from sae.config.methods import all_kinds
from sae.config.run import RunConfig
from sae.core.wording import listed


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
