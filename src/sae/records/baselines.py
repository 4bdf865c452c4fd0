"""What simple baselines reach on the data of a study: `baselines.json`, measured once."""

from collections.abc import Mapping

from sae.core.objectives import TaskName
from sae.records.evaluation import Part


class Measured(Part):
    """A baseline, or a network that is compared with baselines.

    Attributes:
        name: Its name for people.
        losses: Loss of each validation sample, so that a difference can be told from noise.
        val: Metrics on the validation split.
        test: Metrics on the test split, which are shown and decide nothing.
    """

    name: str
    losses: tuple[float, ...]
    val: Mapping[str, float]
    test: Mapping[str, float]


class Baselines(Part):
    """Baselines on the data of a run or study, fitted to its training split.

    Attributes:
        task: `classification` or `regression`.
        samples: A hash of the validation samples, as kept predictions have it.
        found: The trivial one, then those that were fitted.
        num_fitted: Training samples that they were fitted to.
        num_training: All training samples.
        reason: What was left out, and why.
    """

    task: TaskName
    samples: str
    found: tuple[Measured, ...]
    num_fitted: int
    num_training: int
    reason: str = ""
