"""What was measured of a project: the statistics file, and the figures of its last run."""
