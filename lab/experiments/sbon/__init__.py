"""Figures and tables of the SBON paper."""
