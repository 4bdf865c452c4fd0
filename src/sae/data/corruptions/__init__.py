"""The 19 common corruptions of Hendrycks and Dietterich, in 5 severities, for small images.

An image's pixels follow from the seed and its index in the data set, never from its batch.
The textures of frost are generated, where the benchmark crops photographs.
"""

from sae.data.corruptions.apply import SHIFT_SEED, CorruptedImages, corrupt
from sae.data.corruptions.benchmark import (
    ALL_SETS,
    CORRUPTIONS,
    FAMILIES,
    OBJECTIVE_SETS,
    SEVERITIES,
    CorruptedSet,
    Corruption,
)

__all__ = [
    "ALL_SETS",
    "CORRUPTIONS",
    "FAMILIES",
    "OBJECTIVE_SETS",
    "SEVERITIES",
    "SHIFT_SEED",
    "CorruptedImages",
    "CorruptedSet",
    "Corruption",
    "corrupt",
]
