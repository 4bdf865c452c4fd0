"""Tables in memory to fit, with everything that a column may hold."""

from pathlib import Path

import numpy as np
import pandas as pd

COLOURS = ("red", "green", "blue")


def mixed_frame(num_rows: int = 80, seed: int = 0) -> pd.DataFrame:
    """Numbers, texts, dates, booleans and missing values; `price` depends on them."""
    generator = np.random.default_rng(seed)
    size = generator.normal(50.0, 12.0, num_rows)
    colour = np.array(COLOURS)[np.arange(num_rows) % 3]
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(num_rows), unit="D")
    price = 3 * size + 20 * (colour == "red") + generator.normal(0, 5, num_rows)
    frame = pd.DataFrame({"size": size, "colour": colour, "day": day, "sold": size > 50, "price": price})
    frame.loc[::7, "size"] = np.nan
    frame.loc[3::11, "colour"] = None
    return frame


def written(frame: pd.DataFrame, path: Path) -> Path:
    """The frame as a CSV file."""
    frame.to_csv(path, index=False)
    return path
