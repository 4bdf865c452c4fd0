"""The 19 common corruptions of Hendrycks and Dietterich at 5 severities, for small images.

The corrupted pixels of an image depend on the seed and on its index in the data set, never on its
batch. Frost textures are generated here; the benchmark crops photographs.
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
