"""Settings for pretrained weights: what stays frozen, and the preparation of images that the weights expect."""

import math
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator

FINE_TUNING: Mapping[str, object] = {"epochs": 12, "patience": 3, "lr": 3e-4, "frozen_batch_norm": True}
"""Settings of a training that begins with good weights: in its few steps BatchNorm would not learn new statistics."""
AS_IMAGENET: Mapping[str, object] = {"normalisation": "imagenet", "resize": (96, 96), "fit": "crop"}
"""The preparation of images for published weights; a set of the catalogue keeps its size."""


def _check_freeze(given: object) -> object:
    is_number = isinstance(given, int) and not isinstance(given, bool) and given >= 0
    if is_number or (isinstance(given, str) and given):
        return given
    raise ValueError(f"must be how many parts are frozen, from 0 on, or the name of the last one, got {given!r}")


def _check_normalisation(given: object) -> object:
    if given in ("own", "imagenet"):
        return given
    if isinstance(given, list | tuple) and len(given) == 2 and all(map(_are_numbers, given)) and min(given[1]) > 0:
        return given
    raise ValueError(
        f"must be own, imagenet, or [[means], [deviations]] of pixels from 0 to 1, deviations above 0, got {given!r}"
    )


def _are_numbers(given: object) -> bool:
    if not isinstance(given, list | tuple) or not given:
        return False
    return all(isinstance(each, int | float) and math.isfinite(each) for each in given)


Freeze = Annotated[int | str, BeforeValidator(_check_freeze)]
"""How many parts of a backbone are frozen, or the name of the last one."""
GivenNormalisation = Annotated[
    Literal["own", "imagenet"] | tuple[tuple[float, ...], tuple[float, ...]], BeforeValidator(_check_normalisation)
]
"""Means and deviations of the channels of images, or where they come from."""
