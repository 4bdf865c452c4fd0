"""The 19 common corruptions of Hendrycks and Dietterich, in 5 severities, for small images.

An image's pixels follow from the seed and its index in the data set, never from its batch.
The textures of frost are generated, where the benchmark crops photographs.
"""

from sae.data.corruptions.apply import corrupt
from sae.data.corruptions.catalogue import CORRUPTIONS, Corruption
from sae.data.corruptions.constants import SEVERITIES

__all__ = ["CORRUPTIONS", "SEVERITIES", "Corruption", "corrupt"]
