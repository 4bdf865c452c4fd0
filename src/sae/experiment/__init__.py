"""A whole experiment in one resumable command: search, confirm, ship, report."""
