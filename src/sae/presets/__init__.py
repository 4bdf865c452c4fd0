"""YAML of the shipped experiments."""
