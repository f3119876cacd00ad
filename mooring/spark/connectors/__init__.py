"""Jars that a pipeline needs beyond Spark's own: which, where they come from, and what is missing without."""
