"""Evaluation of placements: one set of metrics for all policies, and an explanation of the result."""
