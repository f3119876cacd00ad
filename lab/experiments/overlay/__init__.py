"""Figures of the overlays paper, and what its search costs."""
