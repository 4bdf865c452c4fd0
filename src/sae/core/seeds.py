"""Seeds for single purposes, derived from the seed of a run.

Every random draw in the library comes from a generator that was seeded for a named
purpose. Nothing depends on the order of unrelated draws, so a resumed run draws what an
uninterrupted one would have drawn, and no generator state needs saving.
"""

import hashlib


def derive_seed(seed: int, *purpose: str | int) -> int:
    """Return a 63-bit seed that depends on the run's seed and on the purpose.

    Example:
        >>> derive_seed(0, "train", 3) == derive_seed(0, "train", 3)
        True
        >>> derive_seed(0, "train", 3) == derive_seed(0, "train", 4)
        False
    """
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
