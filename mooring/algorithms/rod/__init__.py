"""Resilient operator distribution: the greedy of the ROD paper, and the clustering before it."""
