"""Figures of the chunk paper, and what was measured beyond them."""
