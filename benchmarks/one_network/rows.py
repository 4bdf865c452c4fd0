"""The rows of the tables: configurations that are tuned and reported, and the data sets and backbones they run on."""

from dataclasses import dataclass, replace
from functools import reduce

from sae.config.settings import Layer, merge


@dataclass(frozen=True)
class Row:
    """A configuration that is tuned and reported.

    Attributes:
        title: Title in tables.
        settings: Settings that differ from those of its set.
        teacher: The row of deep ensembles that it learns from, of its own seed.
        rate_of: The row whose learning rate it takes over, instead of being tuned; for ablations.
        epochs: How many times the epochs of the set it trains.
        width: How many times the width of the set its networks have.
        first_of: The row of deep ensembles whose first member it is, where both have the same learning rate.
        weights_of: The row whose trained networks it takes, with weights of the exits fitted on validation data.
    """

    title: str
    settings: Layer
    teacher: str | None = None
    rate_of: str | None = None
    epochs: int = 1
    width: float = 1
    first_of: str | None = None
    weights_of: str | None = None


ENSEMBLE = "ensemble"
RIVALS = (ENSEMBLE, "ema-ensemble", "long-ensemble", "patient-ensemble")
"""Deep ensembles of four networks of the set's width; the best of them on validation data is the one to match."""
FOUR: Layer = {"method": {"name": "ensemble", "members": 4}}
ONE_BY_FIVE: Layer = {"method": {"name": "sae", "inputs": 1, "exits": 5}}
THREE_BY_FIVE: Layer = {
    "method": {"name": "sae", "inputs": 3, "exits": 5, "repeat_fraction": {"start": 0.0, "end": 0.0}}
}
THREE_BY_THREE: Layer = {
    "method": {"name": "sae", "inputs": 3, "exits": 3, "repeat_fraction": {"start": 0.0, "end": 0.0}}
}
STANDARD: Layer = {"method": {"name": "standard"}}
TAUGHT: Layer = {"teacher": {"weight": 0.9, "temperature": 2.0, "perturb": 0.0}}
PERTURBED: Layer = {"teacher": {"weight": 0.9, "temperature": 2.0, "perturb": 1.0}}
AVERAGED: Layer = {"train": {"ema": 0.999}}
BEST_EPOCH: Layer = {"train": {"keep": "best", "keep_by": "nll_scaled"}}


def taught(
    title: str, *layers: Layer, like: str | None = None, epochs: int = 1, width: float = 1, teacher: str = ENSEMBLE
) -> Row:
    """Return a row that learns from the deep ensemble of its seed, with the learning rate of another row if given."""
    return Row(title, reduce(merge, layers), teacher=teacher, rate_of=like, epochs=epochs, width=width)


ROWS: dict[str, Row] = {
    ENSEMBLE: Row("deep ensemble of 4", FOUR),
    "standard": Row("standard network", STANDARD, first_of=ENSEMBLE),
    "sae-1x5": Row("SAE, N=1 K=5", ONE_BY_FIVE),
    "sae-3x5": Row("SAE, N=3 K=5, i=0", THREE_BY_FIVE),
    "sae-3x3": Row("SAE, N=3 K=3, i=0", THREE_BY_THREE),
    "mc-dropout": Row("MC dropout, 4 draws", {"method": {"name": "mc_dropout"}}),
    "batch-ensemble": Row("BatchEnsemble of 4", {"method": {"name": "batch_ensemble"}}),
    "packed": Row("packed ensemble of 4, twice the width", {"method": {"name": "packed"}}, width=2),
    "narrow-ensemble": Row("deep ensemble of 4, half the width", FOUR, width=0.5),
    "taught-standard": taught("standard network, distilled", STANDARD, TAUGHT),
    "taught-sae-1x5": taught("SAE, N=1 K=5, distilled", ONE_BY_FIVE, TAUGHT),
    "taught-sae-3x3": taught("SAE, N=3 K=3, i=0, distilled", THREE_BY_THREE, TAUGHT),
    "ema-ensemble": Row("deep ensemble of 4, EMA", merge(FOUR, AVERAGED), rate_of=ENSEMBLE),
    "ema-standard": Row(
        "standard network, EMA", merge(STANDARD, AVERAGED), rate_of="standard", first_of="ema-ensemble"
    ),
    "ema-sae-1x5": Row("SAE, N=1 K=5, EMA", merge(ONE_BY_FIVE, AVERAGED), rate_of="sae-1x5"),
    "em-sae-1x5": Row(
        "SAE, N=1 K=5, weights of exits fitted on validation data", {}, rate_of="sae-1x5", weights_of="sae-1x5"
    ),
    "perturbed-standard": taught(
        "standard network, distilled on perturbed inputs", STANDARD, PERTURBED, like="taught-standard"
    ),
    "perturbed-sae-1x5": taught(
        "SAE, N=1 K=5, distilled on perturbed inputs", ONE_BY_FIVE, PERTURBED, like="taught-sae-1x5"
    ),
    "all-standard": taught("standard network, distilled, EMA", STANDARD, TAUGHT, AVERAGED, like="taught-standard"),
    "all-sae-1x5": taught("SAE, N=1 K=5, distilled, EMA", ONE_BY_FIVE, TAUGHT, AVERAGED, like="taught-sae-1x5"),
    "long-standard": taught(
        "standard network, distilled for 4 × the epochs", STANDARD, TAUGHT, like="taught-standard", epochs=4
    ),
    "long-sae-1x5": taught(
        "SAE, N=1 K=5, distilled for 4 × the epochs", ONE_BY_FIVE, TAUGHT, like="taught-sae-1x5", epochs=4
    ),
    "long-sae-3x3": taught(
        "SAE, N=3 K=3, i=0, distilled for 4 × the epochs", THREE_BY_THREE, TAUGHT, like="taught-sae-3x3", epochs=4
    ),
    "well-taught-standard": taught(
        "standard network, distilled for 4 × the epochs from the ensemble of as many",
        STANDARD,
        TAUGHT,
        like="taught-standard",
        epochs=4,
        teacher="long-ensemble",
    ),
    "well-taught-sae-1x5": taught(
        "SAE, N=1 K=5, distilled for 4 × the epochs from the ensemble of as many",
        ONE_BY_FIVE,
        TAUGHT,
        like="taught-sae-1x5",
        epochs=4,
        teacher="long-ensemble",
    ),
    "well-taught-wide": taught(
        "standard network of 1.125 × the width, distilled for 4 × the epochs from the ensemble of as many",
        STANDARD,
        TAUGHT,
        like="taught-standard",
        epochs=4,
        width=1.125,
        teacher="long-ensemble",
    ),
    "patient-standard": taught(
        "standard network of 1.125 × the width, distilled for 8 × the epochs from the ensemble of 4 ×",
        STANDARD,
        TAUGHT,
        like="taught-standard",
        epochs=8,
        width=1.125,
        teacher="long-ensemble",
    ),
    "patient-sae-1x5": taught(
        "SAE, N=1 K=5, of 1.125 × the width, distilled for 8 × the epochs from the ensemble of 4 ×",
        ONE_BY_FIVE,
        TAUGHT,
        like="taught-sae-1x5",
        epochs=8,
        width=1.125,
        teacher="long-ensemble",
    ),
    "long-ensemble": Row(
        "deep ensemble of 4, 4 × the epochs, best epoch kept", merge(FOUR, BEST_EPOCH), rate_of=ENSEMBLE, epochs=4
    ),
    "patient-ensemble": Row(
        "deep ensemble of 4, 8 × the epochs, best epoch kept", merge(FOUR, BEST_EPOCH), rate_of=ENSEMBLE, epochs=8
    ),
    "long-alone": Row(
        "standard network, 4 × the epochs, best epoch kept",
        merge(STANDARD, BEST_EPOCH),
        rate_of="standard",
        epochs=4,
        first_of="long-ensemble",
    ),
    "long-alone-sae-3x3": Row(
        "SAE, N=3 K=3, i=0, 4 × the epochs, best epoch kept",
        merge(THREE_BY_THREE, BEST_EPOCH),
        rate_of="sae-3x3",
        epochs=4,
    ),
}
ADDITIONS: dict[str, dict[str, str]] = {
    "EMA of the weights (0.999)": {"standard": "ema-standard", "sae-1x5": "ema-sae-1x5"},
    "weights of exits fitted on validation data (EM)": {"sae-1x5": "em-sae-1x5"},
    "distilled from the ensemble": {"standard": "taught-standard", "sae-1x5": "taught-sae-1x5"},
    "distilled on perturbed inputs": {"standard": "perturbed-standard", "sae-1x5": "perturbed-sae-1x5"},
    "distilled, EMA": {"standard": "all-standard", "sae-1x5": "all-sae-1x5"},
    "4 × the epochs, best epoch kept": {"standard": "long-alone"},
    "distilled for 4 × the epochs": {"standard": "long-standard", "sae-1x5": "long-sae-1x5"},
    "distilled for 4 × the epochs from the ensemble of as many": {
        "standard": "well-taught-standard",
        "sae-1x5": "well-taught-sae-1x5",
    },
    "1.125 × the width, distilled for 8 × the epochs from the ensemble of 4 ×": {
        "standard": "patient-standard",
        "sae-1x5": "patient-sae-1x5",
    },
}
"""Rows of the ablation: the addition, and the row that tries it on each kind of network."""


TWINS = {
    "sae-1x5": "standard",
    "ema-sae-1x5": "ema-standard",
    "taught-sae-1x5": "taught-standard",
    "all-sae-1x5": "all-standard",
    "long-sae-1x5": "long-standard",
    "well-taught-sae-1x5": "well-taught-standard",
    "patient-sae-1x5": "patient-standard",
    "sae-3x5": "standard",
    "sae-3x3": "standard",
    "taught-sae-3x3": "taught-standard",
    "long-sae-3x3": "long-standard",
    "long-alone-sae-3x3": "long-alone",
}
"""SAEs, and the standard networks that were trained in the same way."""


def plain_of(row: str) -> str | None:
    """Return the row without the addition that this one tries, if it is one of the ablation."""
    return next((kind for rows in ADDITIONS.values() for kind, name in rows.items() if name == row), None)


SEEDS = (0, 1, 2)
MORE_SEEDS = tuple(range(10))
PATIENT_ROWS = ("patient-ensemble", "patient-standard", "patient-sae-1x5")
COMMON_ROWS = tuple(row for row in ROWS if "3x3" not in row and row not in PATIENT_ROWS)


@dataclass(frozen=True)
class Setting:
    """Data, a backbone and a budget, the same for all rows.

    Attributes:
        data: Name of the data for people.
        title: Title in tables.
        settings: Settings of the standard network; rows change them.
        most_rates: How many learning rates a row is tuned over at most.
        other: Another data set, whose images should be detected as out of distribution.
        rows: Rows to train.
        decisive: Rows with the seeds of `MORE_SEEDS`, because three could not tell whether they match.
    """

    data: str
    title: str
    settings: Layer
    most_rates: int = 4
    other: str | None = None
    rows: tuple[str, ...] = COMMON_ROWS
    decisive: tuple[str, ...] = ()

    def seeds(self, row: str) -> tuple[int, ...]:
        """Return the seeds of a row."""
        return MORE_SEEDS if row in self.decisive else SEEDS


def fashion(width: float, epochs: int) -> Setting:
    """Return Fashion-MNIST on the FC backbone, with all training images."""
    return Setting(
        "Fashion-MNIST",
        f"Fashion-MNIST, FC W={width:g}, {epochs} epochs unless stated",
        {
            "data": {"name": "fashionmnist", "crop": 0, "flip": False},
            "backbone": {"name": "fc", "width": width},
            "train": {"epochs": epochs, "batch_size": 128},
        },
        other="mnist",
    )


def part(size: int, width: float) -> Setting:
    """Return Fashion-MNIST with a number of training images; every row keeps its best epoch, or most would overfit."""
    whole = fashion(width, SIZES[size])
    return replace(
        whole,
        data=f"Fashion-MNIST, {size:,} training images",
        title=f"Fashion-MNIST, {size:,} training images, FC W={width:g}, best of {SIZES[size]} epochs",
        settings=merge(whole.settings, merge({"data": {"train_size": size}}, BEST_EPOCH)),
        other=None,
    )


SIZES = {500: 100, 2_000: 50, 10_000: 20, 55_000: 12}
"""Most epochs of the regime map, by the number of training images; 55,000 are all."""
WIDTHS = (1, 2, 4)
REGIME_ROWS = (ENSEMBLE, "standard", "sae-1x5", "sae-3x5")
LARGE = ("fashion-fc", "blood-vgg")
"""Sets with all training images: those of the ablation."""
FEW = {f"fashion-{size}": size for size in (2_000, 500)}
"""Sets with few training images, by name."""
FEW_ROWS = (
    *(ENSEMBLE, "standard", "sae-3x5", "sae-3x3", "taught-standard", "taught-sae-3x3"),
    *("taught-sae-1x5", "sae-1x5", "mc-dropout", "batch-ensemble"),
    *("long-ensemble", "long-alone", "long-standard", "long-sae-3x3", "long-alone-sae-3x3"),
)
CONVOLUTIONAL = "fashion-vgg"
"""Fashion-MNIST on the VGG backbone, with fewer rows."""
CONVOLUTIONAL_ROWS = (
    *(ENSEMBLE, "standard", "sae-1x5", "taught-standard", "taught-sae-1x5"),
    *("long-ensemble", "long-alone", "well-taught-standard", "well-taught-sae-1x5"),
    *("mc-dropout", "batch-ensemble", "packed", "narrow-ensemble"),
)
MATCHES = (*LARGE, CONVOLUTIONAL, *FEW)
"""The sets of the first table."""


def regime(size: int, width: int) -> str:
    """Return the set of a cell of the regime map; the first table has some of the cells, too."""
    return f"fashion-{size}" if width == 1 and size in FEW.values() else f"fashion-{size}-w{width}"


CELLS = tuple((size, width) for size in SIZES for width in WIDTHS if size < max(SIZES) or width == min(WIDTHS))
"""Cells of the regime map, by the number of training images and the width; others take too long here."""
SETS: dict[str, Setting] = {
    "fashion-fc": fashion(1, 12),
    "blood-vgg": Setting(
        "blood cells",
        "blood cells (rebuilt, own split), VGG W=2, 10 epochs unless stated",
        {
            "data": {"name": "bloodmnist-rebuilt.npz", "task": "classification", "crop": 0, "flip": True},
            "backbone": {"name": "vgg", "width": 2},
            "train": {"epochs": 10, "batch_size": 128},
        },
        rows=(*COMMON_ROWS, *PATIENT_ROWS),
        decisive=("long-ensemble", "long-alone", "patient-standard", "patient-sae-1x5"),
    ),
    CONVOLUTIONAL: replace(
        fashion(1, 6),
        data="Fashion-MNIST, VGG",
        title="Fashion-MNIST, VGG W=1, 6 epochs",
        settings=merge(fashion(1, 6).settings, {"backbone": {"name": "vgg", "width": 1}}),
        rows=CONVOLUTIONAL_ROWS,
    ),
    **{regime(size, width): replace(part(size, width), most_rates=2) for size, width in CELLS},
    **{name: replace(part(size, 1), most_rates=3, rows=FEW_ROWS) for name, size in FEW.items()},
}
