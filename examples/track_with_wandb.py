"""Follow a run in Weights & Biases: its settings, every epoch, and the results on test.

Run: pip install 'saensemble[train,wandb]' && WANDB_MODE=offline python examples/track_with_wandb.py
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import wandb

import sae
from sae.training.tracking import Row, State


class WandbCallback(sae.RunCallback):
    """Writes a run of W&B for each training. One that was interrupted and continued has all epochs, too."""

    def __init__(self, project: str) -> None:
        self.project = project

    def on_run_start(self, record: sae.RunRecord, history: Sequence[Row]) -> None:
        """Open a run with the settings, and log the epochs that are done."""
        settings = record.read_config().model_dump(mode="json")
        self.run = wandb.init(project=self.project, name=record.path.name, config=settings, reinit="create_new")
        for row in history:
            self.on_epoch(record, row)

    def on_epoch(self, record: sae.RunRecord, row: Row) -> None:
        """Log all columns of the history."""
        self.run.log(dict(row), step=int(row["epoch"]))

    def on_run_end(self, record: sae.RunRecord, state: State) -> None:
        """Log the results, and close the run."""
        if state == "finished":
            results = record.read_evaluation().test.chosen.metrics
            self.run.summary.update({f"test_{name}": value for name, value in results.items()})
        self.run.finish(exit_code=int(state != "finished"))


def main(out: Path | None = None, epochs: int = 5) -> None:
    """Train on scikit-learn's digits; `wandb sync` uploads what an offline run leaves in `wandb/`."""
    config = sae.resolve({"data": "digits", "backbone": "fc", "train": {"epochs": epochs}})
    callback = WandbCallback("digits")
    with tempfile.TemporaryDirectory() as folder:
        sae.train(config, out or Path(folder) / "first", callbacks=[callback])
    print(f"{callback.run.name} is in {callback.run.dir}")


if __name__ == "__main__":
    main()
