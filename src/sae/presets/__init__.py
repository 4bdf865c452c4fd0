"""YAML of the paper's spaces and experiments."""
