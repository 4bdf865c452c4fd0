"""Figures of a report, one definition for page and files."""
