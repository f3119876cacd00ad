"""Figures and tables of the ROD paper."""
