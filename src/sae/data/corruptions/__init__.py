"""The 19 common corruptions of Hendrycks and Dietterich, in 5 severities, for small images.

An image's pixels follow from the seed and its index in the data set, never from its batch.
The textures of frost are generated, where the benchmark crops photographs.
"""

from sae.data.corruptions.apply import SHIFT_SEED, CorruptedImages, corrupt
from sae.data.corruptions.benchmark import CORRUPTIONS, SEVERITIES, Corruption

__all__ = ["CORRUPTIONS", "SEVERITIES", "SHIFT_SEED", "CorruptedImages", "Corruption", "corrupt"]
