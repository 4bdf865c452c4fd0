"""Folders that runs and studies leave, read once into typed results."""
