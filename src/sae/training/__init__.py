"""Training and evaluation: from a config to a run folder, and back to a network."""
