"""The version of this package: its only home, read by the build and recorded with every result."""

__version__ = "0.2.0"
