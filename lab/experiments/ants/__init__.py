"""Figures of the ants paper."""
