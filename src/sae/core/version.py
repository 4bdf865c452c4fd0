"""The version of this package, read by the build and recorded with every result."""

__version__ = "0.2.0"
