"""Samplers, which choose the next configuration to try."""
