"""Runs that are exported once for all tests of a session."""

from pathlib import Path

import numpy as np
import pytest

from sae.config.run import parse_run
from sae.data.catalogue import resolve
from sae.deploy.export import export
from sae.training.run import train
from tests.builders import run_config
from tests.data.samples import npz_arrays, signal_arrays, signal_rows, table_rows, write_csv, write_npz


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("digits") / "run"
    train(run_config(method={"name": "sae", "inputs": 2, "exits": 2}), out)
    return out


@pytest.fixture(scope="session")
def digits_model(digits_run: Path) -> Path:
    """A classification of 16×16 gray images, 10 classes."""
    out = digits_run.parent / "shipped" / "model.onnx"
    export(digits_run, out, eval_exits=2)
    return out


@pytest.fixture(scope="session")
def framed_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classification of 28×28 RGB images, which get a frame; the data are beside it in `data.npz`."""
    folder = tmp_path_factory.mktemp("framed")
    arrays = npz_arrays(side=28, channels=3)
    data = write_npz(folder / "data.npz", arrays)
    settings = {"data": {"name": str(data), "task": "classification"}, "backbone": {"name": "vgg", "depth": 3}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAE_CACHE", str(folder / "cache"))
        train(
            parse_run(settings, {"method": {"name": "sae"}, "train": {"epochs": 2, "batch_size": 16}}), folder / "run"
        )
        export(folder / "run", folder / "shipped" / "model.onnx")
    return folder / "shipped" / "model.onnx"


@pytest.fixture(scope="session")
def table_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A regression from a table with texts and missing values; the data are beside it in `data.csv`."""
    folder = tmp_path_factory.mktemp("table")
    rows = [{**row, "size": "" if index % 7 == 0 else index % 5} for index, row in enumerate(table_rows(80))]
    data = write_csv(folder / "data.csv", rows)
    settings = {
        "data": {"name": str(data), "task": "regression", "target": "price"},
        "backbone": {"name": "fc", "depth": 2},
    }
    train(parse_run(settings, {"method": {"name": "mc_dropout"}, "train": {"epochs": 2}}), folder / "run")
    export(folder / "run", folder / "shipped" / "model.onnx")
    return folder / "shipped" / "model.onnx"


@pytest.fixture(scope="session")
def signal_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classification of signals of two channels with named classes; the data are beside it in `data.npz`."""
    folder = tmp_path_factory.mktemp("signals")
    given = signal_arrays()
    names = np.array(["run", "stand", "walk"])
    texts = {name: names[array] if name.endswith("labels") else array for name, array in given.items()}
    data = {"name": str(write_npz(folder / "data.npz", texts)), "task": "classification"}
    train(resolve({"data": data, "backbone": {"depth": 3}, "train": {"epochs": 2}}), folder / "run")
    return folder / "run"


@pytest.fixture(scope="session")
def series_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A regression from signals in the rows of a table; the data are beside it in `data.csv`."""
    folder = tmp_path_factory.mktemp("series")
    rows = [{key: value for key, value in row.items() if key != "kind"} for row in signal_rows()]
    data = {"name": str(write_csv(folder / "data.csv", rows)), "task": "regression", "target": "end", "kind": "signals"}
    train(resolve({"data": data, "backbone": {"depth": 2}, "train": {"epochs": 2}}), folder / "run")
    export(folder / "run", folder / "shipped" / "model.onnx")
    return folder / "shipped" / "model.onnx"


@pytest.fixture
def pixels() -> np.ndarray:
    """Three gray images of 16×16."""
    return np.random.default_rng(0).integers(0, 256, (3, 1, 16, 16)).astype(np.uint8)
