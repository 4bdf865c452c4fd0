"""Numbers about predictions and networks: quality, calibration and cost."""
