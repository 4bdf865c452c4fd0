"""Names of the parts of a network, whose costs are counted separately."""

import re

STEM = "stem"
REST = "rest"
"""Everything outside all named parts."""

NUMBERED = re.compile(r"(stage|exit|member)_(\d+)")


def stage_name(number: int) -> str:
    """Return the name of a stage, counted from 1 as in the paper."""
    return f"stage_{number}"


def exit_name(number: int) -> str:
    """Return the name of the exit behind a stage: its connector and its head."""
    return f"exit_{number}"


def member_name(number: int) -> str:
    """Return the name of one of several networks that share nothing."""
    return f"member_{number}"


def shown_name(name: str) -> str:
    """Return the name of a part for people.

    Example:
        >>> shown_name("stage_2"), shown_name("heads")
        ('stage 2', 'heads')
    """
    return name.replace("_", " ")


def number_in(name: str, kind: str) -> int | None:
    """Return the number of a part of this kind (stage, exit or member); None for any other part.

    Example:
        >>> number_in("exit_3", "exit"), number_in("exit_3", "stage"), number_in("exit_signs", "exit")
        (3, None, None)
    """
    found = NUMBERED.fullmatch(name)
    return int(found[2]) if found and found[1] == kind else None
