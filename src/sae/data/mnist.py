"""Facts about MNIST and the sets in its format: files, checksums, classes.

The SHA-256 are of the unpacked files, so that a file packed by somebody else, such as Debian's
package `dataset-fashion-mnist`, is recognised, too. The MD5 are of the files as published.
"""

from dataclasses import dataclass

from sae.data.locations import PublishedFile

PARTS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
"""Names of the four files, unpacked: training images and labels, test images and labels."""


@dataclass(frozen=True)
class MnistSet:
    """A set of four files in the format of MNIST: gray images of 28², 60,000 for training and 10,000 for test.

    Attributes:
        title: Official name.
        url: Address of the folder that the files are published in.
        class_names: Names of the classes in the order of their labels.
        md5: Checksums of the published files in the order of `PARTS`.
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
        """The published files in the order of `PARTS`."""
        return tuple(
            PublishedFile(f"{part}.gz", f"{self.url}/{part}.gz", md5, part, sha256, self.folders, self.elsewhere)
            for part, md5, sha256 in zip(PARTS, self.md5, self.sha256, strict=True)
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
