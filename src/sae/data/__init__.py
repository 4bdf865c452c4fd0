"""Data sets: the catalogue, readers, cache, batches and corruptions."""
