"""What is trained: the configurations that the paper names, with its settings, on each of its data sets."""

from dataclasses import dataclass, field

from sae.config.settings import Layer


@dataclass(frozen=True)
class Row:
    """A configuration.

    Attributes:
        title: Title in tables.
        settings: Settings that differ from those of its set.
        members_of: The row of larger ensembles that holds its networks as first members, so that they are trained once.
    """

    title: str
    settings: Layer
    members_of: str | None = None


@dataclass(frozen=True)
class Setting:
    """A data set with the paper's network and training.

    Attributes:
        title: Title in tables.
        settings: What all rows share; the rest are the paper's defaults: 50 epochs, lr 3e-4, weight decay 1e-5.
        seeds: How many seeds are trained.
        rows: The configurations, larger ensembles first.
    """

    title: str
    settings: Layer
    seeds: int
    rows: dict[str, Row] = field(default_factory=dict)


def sae(inputs: int, exits: int, **more: object) -> Layer:
    """Return the settings of an SAE; its schedules are our defaults, since the paper names none of those it found."""
    return {"method": {"name": "sae", "inputs": inputs, "exits": exits}, **more}


def ensemble(members: int, **more: object) -> Layer:
    """Return the settings of a deep ensemble."""
    return {"method": {"name": "ensemble", "members": members}, **more}


STANDARD: Layer = {"method": {"name": "standard"}}
SMALL_FC: Layer = {"width": 3, "depth": 3}
DEEP_VGG: Layer = {"width": 4, "depth": 4, "blocks": [1, 1, 2, 2, 2]}

SETS = {
    "pneumonia": Setting(
        "PneumoniaMNIST, FC",
        {
            "data": {"name": "pneumoniamnist", "size": 28, "crop": 4, "flip": True},
            "backbone": {"name": "fc", "width": 4},
            "train": {"epochs": 50, "batch_size": 64, "lr": 3e-4, "weight_decay": 1e-5},
        },
        10,
        {
            "ee-2": Row("SAE: EE, W=4 K=2", sae(1, 2)),
            "ee-4": Row("SAE: EE, W=4 K=4", sae(1, 4)),
            "batch-ensemble": Row(
                "BatchEnsemble, W=3 D=3 M=4",
                {
                    "method": {"name": "batch_ensemble", "members": 4},
                    "backbone": SMALL_FC,
                    "train": {"batch_size": 72},
                },
            ),
            "ensemble": Row("deep ensemble, W=4 D=5 M=4", ensemble(4)),
            "ensemble-2": Row("deep ensemble, W=4 D=5 M=2", ensemble(2), members_of="ensemble"),
            "standard": Row("standard network, W=4 D=5", STANDARD, members_of="ensemble"),
            "small-ensemble": Row("deep ensemble, W=3 D=3 M=4", ensemble(4, backbone=SMALL_FC)),
            "small-standard": Row(
                "standard network, W=3 D=3", {**STANDARD, "backbone": SMALL_FC}, members_of="small-ensemble"
            ),
            "mc-dropout": Row("MC dropout, W=4 D=5, rate 0.1", {"method": {"name": "mc_dropout", "rate": 0.1}}),
        },
    ),
    "blood": Setting(
        "blood cells (rebuilt, own split), VGG",
        {
            "data": {"name": "bloodmnist-rebuilt.npz", "task": "classification", "crop": 4, "flip": True},
            "backbone": {"name": "vgg", "width": 4, "blocks": [1, 1, 2, 2, 2]},
            "train": {"epochs": 50, "batch_size": 128, "lr": 3e-4, "weight_decay": 1e-5},
        },
        6,
        {
            "ensemble-2-d4": Row("deep ensemble, W=4 D=4 M=2", ensemble(2, backbone=DEEP_VGG)),
            "mimo": Row("SAE: MIMO, N=4 K=1 W=4", sae(4, 1)),
            "between": Row("SAE: I/B, N=2 K=4 W=4", sae(2, 4)),
            "standard-d4": Row(
                "standard network, W=4 D=4", {**STANDARD, "backbone": DEEP_VGG}, members_of="ensemble-2-d4"
            ),
            "ensemble": Row("deep ensemble, W=4 D=5 M=4", ensemble(4)),
            "ensemble-2": Row("deep ensemble, W=4 D=5 M=2", ensemble(2), members_of="ensemble"),
            "standard": Row("standard network, W=4 D=5", STANDARD, members_of="ensemble"),
        },
    ),
    "retina": Setting(
        "RetinaMNIST, ViT",
        {
            "data": {"name": "retinamnist", "size": 28, "crop": 4, "flip": True},
            "backbone": {"name": "vit", "width": 1},
            "train": {"epochs": 50, "batch_size": 64, "lr": 3e-4, "weight_decay": 1e-5},
        },
        4,
        {
            "mimo": Row("SAE: MIMO, N=3 K=1", sae(3, 1)),
            "ensemble": Row("deep ensemble, M=4", ensemble(4)),
            "ensemble-2": Row("deep ensemble, M=2", ensemble(2), members_of="ensemble"),
            "standard": Row("standard network", STANDARD, members_of="ensemble"),
            "between": Row("SAE: I/B, N=2 K=2", sae(2, 2)),
            "mimmo": Row("SAE: MIMMO, N=2 K=5", sae(2, 5)),
            "ee": Row("SAE: EE, K=5", sae(1, 5)),
            "batch-ensemble": Row(
                "BatchEnsemble, M=4",
                {"method": {"name": "batch_ensemble", "members": 4}, "train": {"batch_size": 72}},
            ),
        },
    ),
    "noise": Setting(
        "PneumoniaMNIST, FC W=1, where the Gumbel noise is added",
        {
            "data": {"name": "pneumoniamnist", "size": 28, "crop": 4, "flip": True},
            "backbone": {"name": "fc", "width": 1},
            "train": {"epochs": 50, "batch_size": 64, "lr": 3e-4, "weight_decay": 1e-5},
        },
        5,
        {
            f"{noise}-{end:g}": Row(
                f"SAE N=2 K=2, T from 1 to {end:g}, noise on {where}",
                {
                    "method": {
                        "name": "sae",
                        "inputs": 2,
                        "exits": 2,
                        "temperature": {"start": 1.0, "end": end},
                        "noise_on": noise,
                    }
                },
            )
            for end in (0.01, 0.1, 1.0)
            for noise, where in (("logits", "l"), ("tempered", "l/T"))
        },
    ),
}
