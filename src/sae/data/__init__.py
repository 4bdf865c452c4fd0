"""Data sets: what there is, how it is read, and how batches are made of it."""
