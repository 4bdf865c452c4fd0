"""Export of a run to a model file, and prediction with it; `runtime` and everything it imports work without torch."""
