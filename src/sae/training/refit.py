"""The last training before shipping: once more, with the validation samples, too.

Two more networks each train with one half of the validation samples and predict the other. Temperatures and conformal
scores of the last network are fitted on these predictions, of samples that the predicting networks have not seen. The
network before has not seen them either, but they chose its best epoch: its scores would be too small. Of a split in
time only the later half is predicted, by the network that trained with the earlier one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sae.config.run import RunConfig, ValToo
from sae.core.errors import ConfigError, SaeError
from sae.core.progress import SILENT, ProgressDisplay
from sae.core.task import SampleKind
from sae.data.binding import AS_BEFORE, Binding, Whereabouts
from sae.data.catalogue import find_entry
from sae.data.defaults import LARGE
from sae.records.run import RunRecord
from sae.training.run import train
from sae.training.teacher import TeacherIdentity

AVERAGE = 0.98
"""Decay of the moving average of the weights: about the last fifty updates."""


@dataclass(frozen=True)
class Refit:
    """The runs of a last training.

    Attributes:
        whole: Trained with all validation samples.
        folds: Trained with one half of them each, to predict the other.
    """

    whole: RunRecord
    folds: tuple[RunRecord, ...]


def refit(record: RunRecord, where: Whereabouts = AS_BEFORE, display: ProgressDisplay = SILENT) -> Refit:
    """Train a run's network again on more samples, in folders below; continue or return earlier such trainings.

    Args:
        record: The finished run, which does not change.
        where: Where its data are now.
        display: Where progress is shown.
    """
    problem = obstacle(record)
    if problem:
        raise ConfigError(f"{record.path} cannot be trained again, because {problem}: leave out --refit")
    config, history, binding = record.read_config(), record.read_history(), Binding.read(record)
    assert binding is not None, "without it, there is an obstacle"
    samples = binding.description.samples

    def again(val_too: ValToo) -> RunRecord:
        settings = refit_config(config, history, val_too, samples["train"], samples["val"])
        own = Whereabouts(where.path)  # other data are never trained on
        return train(settings, record.refit_folder(val_too), same_data_as=record, where=own, display=display)

    return Refit(folds=tuple(again(fold) for fold in folds_of(config)), whole=again("all"))


def folds_of(config: RunConfig) -> tuple[ValToo, ...]:
    """Return the halves of the validation samples that a network trains with to predict the other."""
    return ("first",) if config.data.time else ("first", "second")


def refits_by_default(record: RunRecord) -> bool:
    """Return whether a pick is trained again without being asked: for classes of the user's own table or small set.

    Predictions of values did not gain (docs/defaults.md).
    """
    data, binding = record.read_config().data, Binding.read(record)
    if binding is None or binding.description.target is not None:
        return False
    entry = find_entry(data.name, data.kind)
    is_small = binding.description.samples["train"] < LARGE
    return entry.count is not None and (entry.kind is SampleKind.TABLE or is_small)


def obstacle(record: RunRecord) -> str | None:
    """Return why a run cannot be trained again, or None."""
    config, status = record.read_config(), record.read_status()
    if not record.has(record.DATA):
        return "it was made before runs recorded their data"
    if status is not None and status.derived_from:
        return "its members were taken from another run"
    if config.teacher is not None:
        try:
            teacher = TeacherIdentity.of(RunRecord.open(Path(config.teacher.run)))
        except SaeError as error:
            return f"its teacher is missing ({error})"
        if teacher != record.find_model(record.TEACHER, TeacherIdentity):
            return f"its teacher {config.teacher.run} has changed since"
    return None


def refit_config(
    config: RunConfig, history: Sequence[Mapping[str, float]], val_too: ValToo, num_train: int, num_val: int
) -> RunConfig:
    """Return the settings of the last training: as many updates as the best epoch of the first one had seen.

    Epochs, and with them all schedules, become shorter as there are more samples. With as many epochs, thus more
    updates, standard networks for regression became over-confident: on Carseats the NLL on test rose from 1.74 to 2.72,
    and is 1.73 as it is done here. No epoch can be chosen any more, and at a high learning rate each is a matter of
    luck, so weights are averaged over the last updates.

    Args:
        config: The settings of the first training.
        history: Its epochs. Of several streams, the best epoch is that of the whole.
        val_too: The validation samples to train on.
        num_train: Number of training samples of the first training.
        num_val: Number of its validation samples.
    """
    share = num_train / (num_train + (num_val if val_too == "all" else num_val / 2))

    def shortened(epochs: int) -> int:
        return max(1, round(share * epochs))

    train: dict[str, object] = {"val_too": val_too, "epochs": shortened(config.train.epochs)}
    if config.train.keeps_best:
        losses = [row["val_nll"] for row in history]
        train["stop_at"] = shortened(losses.index(min(losses)) + 1)
        train["ema"] = config.train.ema or AVERAGE
    train |= {"patience": 0, "keep": "last", "keep_by": "nll"}
    return config.model_copy(update={"train": config.train.model_copy(update=train)})
