"""Follow a run in MLflow: its settings, every epoch, and the results on test.

Run: pip install 'saensemble[train,mlflow]' && python examples/track_with_mlflow.py
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import mlflow

import sae
from sae.training.tracking import Row, State

STATES = {"finished": "FINISHED", "failed": "FAILED"}


class MlflowCallback(sae.RunCallback):
    """Writes a run of MLflow for each training. One that was interrupted and continued has all epochs, too."""

    def on_run_start(self, record: sae.RunRecord, history: Sequence[Row]) -> None:
        """Open a run, and log the settings and the epochs that are done."""
        mlflow.start_run(run_name=record.path.name)
        sections = record.read_config().model_dump(mode="json", include={"data", "method", "backbone", "train"})
        mlflow.log_params({f"{name}.{key}": value for name, part in sections.items() for key, value in part.items()})
        for row in history:
            self.on_epoch(record, row)

    def on_epoch(self, record: sae.RunRecord, row: Row) -> None:
        """Log all columns of the history."""
        mlflow.log_metrics({name: value for name, value in row.items() if name != "epoch"}, step=int(row["epoch"]))

    def on_run_end(self, record: sae.RunRecord, state: State) -> None:
        """Log the results, and close the run."""
        if state == "finished":
            results = record.read_evaluation().test.chosen.metrics
            mlflow.log_metrics({f"test_{name}": value for name, value in results.items()})
        mlflow.end_run(STATES.get(state, "KILLED"))


def main(out: Path | None = None, store: str | None = None, epochs: int = 5) -> None:
    """Train on scikit-learn's digits, and print what MLflow has stored; by default in a file that is deleted again."""
    with tempfile.TemporaryDirectory() as folder:
        mlflow.set_tracking_uri(store or f"sqlite:///{folder}/mlflow.db")
        mlflow.set_experiment("digits")
        config = sae.resolve({"data": "digits", "backbone": "fc", "train": {"epochs": epochs}})
        sae.train(config, out or Path(folder) / "first", callbacks=[MlflowCallback()])
        [run] = mlflow.search_runs(output_format="list", max_results=1)
        print(f"{run.info.run_name}: {run.info.status}, NLL on test {run.data.metrics['test_nll']:.3f}")


if __name__ == "__main__":
    main()
