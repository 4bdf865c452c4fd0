"""The settings of a backbone that follow from files: a user's code, and weights."""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sae.config.settings import Layer
    from sae.core.task import Shape


def say_preparation(data: "Layer") -> None:
    """Print how images are prepared, if it is not by their own means at their own size."""
    from sae.cli.output import print_message

    normalisation, size = data.get("normalisation", "own"), data.get("resize")
    if normalisation == "own":
        return
    fit = f"{data.get('fit', 'stretch')}; --resize and --fit say otherwise"
    resized = f"resized to {size[0]}×{size[1]} ({fit}) and " if size else ""
    given = "ImageNet's means and deviations" if normalisation == "imagenet" else "the given means and deviations"
    print_message(f"images are {resized}normalised by {given} (data.normalisation)")


def with_backbone(layers: "Sequence[Layer]") -> "list[Layer]":
    """Return layers of settings with one more, if they name a network of the user's own or files of weights.

    It adds what follows from the code and the files: their hashes, and exits where none are given. Suggesting exits
    needs the shape of a sample, and so the data.
    """
    from sae.config.backbones import EFFICIENTNETS
    from sae.config.settings import merge, section_name
    from sae.core.trust import is_source, trusted_file

    names = [section_name(layer["backbone"]) for layer in layers if "backbone" in layer]
    name = next((name for name in reversed(names) if name is not None), None)
    if not is_source(name) and name not in list(EFFICIENTNETS):
        return list(layers)
    from sae.backbones.own import describe_own
    from sae.backbones.weights import describe_weights
    from sae.data.catalogue import load, resolve

    # Other sections may have holes of a search, over which plain values cannot be laid.
    needed = ({key: layer[key] for key in ("backbone", "data", "seed") if key in layer} for layer in layers)
    merged: Layer = functools.reduce(merge, needed, {})
    backbone = merged["backbone"]
    given = dict(backbone) if isinstance(backbone, Mapping) else {}
    weights = describe_weights(str(name), given)
    if not is_source(name):
        return [*layers, {"backbone": {"name": name, **weights}}]
    trusted_file(str(name), given.get("sha256"))
    shape: Shape = ()
    if "exits" not in given:
        config = resolve({key: merged[key] for key in ("data", "seed") if key in merged})
        shape = load(config.data, config.seed).spec.shape
    return [
        *layers,
        {"backbone": {**describe_own(str(name), shape, given.get("exits")), **weights, **given, "name": name}},
    ]
