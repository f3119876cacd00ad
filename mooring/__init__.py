"""Mooring decides where each operator of a streaming pipeline runs."""

__version__ = "0.1.0"
