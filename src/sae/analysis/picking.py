"""One answer from a front, with the reason for it in numbers."""

from collections.abc import Sequence

from sae.analysis.candidates import Candidate, losses_of
from sae.analysis.pareto import knee
from sae.core.objectives import Objective
from sae.core.wording import listed


def pick(
    front: Sequence[Candidate], objectives: Sequence[Objective], prefer: Objective | None = None
) -> tuple[Candidate, str]:
    """The configuration to take, and why, in a sentence.

    Args:
        front: Those that none beats; at least one.
        objectives: What the front is made of.
        prefer: Take the best in this, the cheapest of equals; by default the knee, which gives up least in all.
    """
    assert front, "a pick from nothing was asked for"
    if len(front) == 1:
        return front[0], f"the only configuration of the front: {_numbers(front[0], objectives, front)}"
    size = f"{len(front)} configurations of the front"
    if prefer is None:
        chosen = front[knee(losses_of(front, objectives))]
        reason = f"nearest to the ideal of {listed([item.name for item in objectives])} among {size}"
        return chosen, f"{reason}: {_numbers(chosen, objectives, front)}"
    chosen = min(front, key=lambda item: (prefer.loss(item.values[prefer.name]), item.values["flops"]))
    best = chosen.values[prefer.name]
    equals = sum(item.values[prefer.name] == best for item in front)
    reason = f"{'highest' if prefer.quantity.maximise else 'lowest'} {prefer.name} among {size}"
    if equals > 1:
        reason += f", and the cheapest of {equals} that share it"
    others = [item for item in objectives if item.name != prefer.name]
    numbers = [f"{prefer.name} {prefer.show(best)}", *([_numbers(chosen, others, front)] if others else [])]
    return chosen, f"{reason}: {', '.join(numbers)}"


def _numbers(chosen: Candidate, objectives: Sequence[Objective], front: Sequence[Candidate]) -> str:
    """Each objective's value, with the best of the front where that is another."""
    return ", ".join(_number(chosen.values[item.name], item, front) for item in objectives)


def _number(value: float, objective: Objective, front: Sequence[Candidate]) -> str:
    best = min((item.values[objective.name] for item in front), key=objective.loss)
    beside = "" if len(front) == 1 else " (the best)" if value == best else f" (best {objective.show(best)})"
    return f"{objective.name} {objective.show(value)}{beside}"
