"""The catalogue: every policy by its name."""
