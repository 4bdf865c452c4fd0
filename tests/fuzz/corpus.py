"""Real files of every kind that we read, and the commands that read them."""

import io
import random
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from sae.data.catalogue import resolve
from sae.deploy.export import export
from sae.records.predictions import Predictions, SplitPredictions
from sae.records.run import RunRecord
from sae.training.run import train
from tests.builders import run_config
from tests.data.samples import (
    class_files,
    npz_arrays,
    signal_arrays,
    table_rows,
    write_csv,
    write_folder,
    write_npz,
    write_zip,
)
from tests.fuzz.mutations import BINARY, JSON, TEXT, ZIP, Mutation
from tests.fuzz.oddities import CSV, NPZ, PARQUET

GOLDEN = Path(__file__).parents[1] / "golden"
TRIAL = "study/trials/sae/00002-f3ad97ea"


@dataclass(frozen=True)
class Seed:
    """A real file, what may happen to it, and what reads it.

    Attributes:
        file: The file, relative to the corpus.
        mutations: Ways to damage it.
        command: A command that reads it, run in the corpus.
        stays_whole: Whether the command must succeed whatever the file holds: one damaged trial breaks no study.
    """

    file: str
    mutations: Sequence[Mutation]
    command: str
    stays_whole: bool = False

    @property
    def name(self) -> str:
        return f"{self.command.split()[0]} {self.file}"


def make_corpus(folder: Path) -> list[Seed]:
    """Write the files, and return them."""
    for name in ("run", "study"):
        shutil.copytree(GOLDEN / name, folder / name)
    (folder / "config.yaml").write_text((GOLDEN / "run" / "config.yaml").read_text().replace("digits", "nowhere"))
    (folder / "search.yaml").write_text((GOLDEN / "study.yaml").read_text().replace("digits", "nowhere"))
    _write_data(folder)
    train(run_config(method={"name": "sae", "inputs": 2, "exits": 2}), folder / "begun", until=1)
    priced = {"name": str(folder / "table.csv"), "task": "regression", "target": "price"}
    train(resolve({"data": priced, "backbone": {"depth": 2}, "train": {"epochs": 1}}), folder / "priced-run")
    export(folder / "priced-run", folder / "priced" / "model.onnx")
    _write_predictions(folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777)
    return [*_settings(), *_data(), *_run(), *_study(), *_shipped()]


def _write_data(folder: Path) -> None:
    write_npz(folder / "images.npz", npz_arrays())
    with zipfile.ZipFile(folder / "packed.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in npz_arrays().items():
            content = io.BytesIO()
            np.save(content, array)
            archive.writestr(f"{name}.npy", content.getvalue())
    write_npz(folder / "signals.npz", signal_arrays())
    write_csv(folder / "table.csv", table_rows(60))
    write_zip(folder / "images.zip", class_files())
    write_folder(folder / "tree", class_files())
    rng = np.random.default_rng(0)
    (folder / "list").mkdir()
    for index, suffix in enumerate(("png", "jpg", "bmp", "gif", "tif", "webp", "ppm")):
        pixels = rng.integers(0, 256, (16, 16), np.uint8)
        Image.fromarray(pixels).save(folder / "list" / f"{index}.{suffix}")
    rows = [{"file": path.name, "y": number % 2} for number, path in enumerate(sorted((folder / "list").iterdir()))]
    write_csv(folder / "list" / "list.csv", rows * 3)
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        return
    columns = {key: [row[key] for row in table_rows(60)] for key in table_rows(1)[0]}
    parquet.write_table(pyarrow.table(columns), folder / "table.parquet")


def _write_predictions(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("one", "other"):
        shutil.copytree(folder / "run", folder / name)
        labels = rng.integers(0, 10, 40)
        split = SplitPredictions(
            "same", labels, {k: np.log(rng.dirichlet(np.ones(10), 40)).astype(np.float32) for k in (1, 2, 3)}
        )
        Predictions("classification", split, split).write(RunRecord(folder / name))


def _settings() -> list[Seed]:
    return [
        Seed("config.yaml", TEXT, "train --config config.yaml --out new"),
        Seed("search.yaml", TEXT, "search --config search.yaml --out new"),
    ]


def _data() -> list[Seed]:
    classes, price = "--task classification", "--task regression --target price"
    return [
        Seed("images.npz", (*ZIP, *NPZ), f"data info images.npz {classes}"),
        Seed("packed.npz", ZIP, f"data info packed.npz {classes}"),
        Seed("signals.npz", (*ZIP, *NPZ), f"data info signals.npz {classes} --kind signals"),
        Seed("table.csv", (*TEXT, *CSV), f"data info table.csv {price}"),
        Seed("table.csv", CSV, "predict priced/model.onnx table.csv --out new.csv --json"),
        Seed("table.csv", CSV, "data info table.csv --task classification --target kind --json"),
        Seed("images.zip", ZIP, f"data info images.zip {classes}"),
        Seed("tree/cat/03.png", BINARY, f"data info tree {classes}"),
        Seed("list/list.csv", TEXT, f"data info list/list.csv {classes} --target y"),
        *(
            Seed(f"list/{index}.{suffix}", BINARY, f"data info list/list.csv {classes} --target y")
            for index, suffix in enumerate(("png", "jpg", "bmp", "gif", "tif", "webp", "ppm"))
        ),
        Seed("table.parquet", (*BINARY, *PARQUET), f"data info table.parquet {price}"),
        Seed("table.parquet", PARQUET, "data info table.parquet --target kind"),
        Seed("table.parquet", PARQUET, "predict priced/model.onnx table.parquet --out new.csv --json"),
    ]


def _run() -> list[Seed]:
    return [
        Seed("run/config.yaml", TEXT, "runs run"),
        *(Seed(f"run/{name}", JSON, "runs run") for name in ("metrics.json", "status.json")),
        Seed("run/status.json", JSON, "verify run"),
        Seed("run/config.yaml", TEXT, "evaluate run"),
        Seed("run/model.safetensors", BINARY, "evaluate run"),
        Seed("begun/checkpoint.safetensors", BINARY, "train --config begun/config.yaml --out begun"),
        Seed("begun/data.json", TEXT, "train --config begun/config.yaml --out begun"),
        Seed("begun/config.yaml", TEXT, "show begun"),
        Seed("one/predictions.npz", ZIP, "compare one --with other --metrics nll --resamples 100"),
    ]


def _study() -> list[Seed]:
    return [
        *(
            Seed(f"{TRIAL}/{name}", TEXT, "pareto study", stays_whole=True)
            for name in ("config.yaml", "metrics.json", "status.json", "shift-val.json")
            if (GOLDEN / TRIAL / name).exists()
        ),
        *(Seed(f"study/{name}", TEXT, "pareto study") for name in ("study.yaml",)),
        Seed(f"{TRIAL}/metrics.json", TEXT, "pick study", stays_whole=True),
        Seed("study/clock.json", TEXT, "search --config study/study.yaml --out study"),
        Seed("study/optuna.db", BINARY, "search --config study/study.yaml --out study"),
        Seed("study/confirmed.json", TEXT, "report study --out new.html"),
    ]


def _shipped() -> list[Seed]:
    predict = "predict study/shipped/model.onnx"
    return [
        Seed("study/shipped/manifest.json", JSON, f"{predict} list/0.png --out new.csv --coverage 0.5"),
        Seed("study/shipped/manifest.json", JSON, "verify study/shipped"),
        Seed("study/shipped/manifest.json", JSON, "export study --out study/shipped/model.onnx"),
        Seed("study/shipped/model.onnx", BINARY, f"{predict} list/0.png --out new.csv"),
        Seed("list/0.png", BINARY, f"{predict} list/0.png --out new.csv"),
        Seed("images.npz", (*ZIP, *NPZ), f"{predict} images.npz --out new.csv"),
        Seed("study/shipped/receipt.json", JSON, "export study --out study/shipped/model.onnx"),
    ]


def damage(seed: Seed, corpus: Path, number: int, run_seed: int) -> bytes:
    """Return the content of a malformed file; the same numbers give the same bytes."""
    rng = random.Random(f"{run_seed} {number} {seed.name}")
    content = (corpus / seed.file).read_bytes()
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = rng.choice(seed.mutations)(rng, content)
    return content
