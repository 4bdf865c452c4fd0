"""From a run to a file that is shipped, and predicting with it; `runtime` and what it needs know no torch."""
