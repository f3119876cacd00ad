"""Timed changes of a problem, as data."""
