"""Samplers: how the next configuration is chosen."""
