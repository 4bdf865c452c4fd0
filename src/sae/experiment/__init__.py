"""A whole experiment in one resumable command: its settings, and its run."""
