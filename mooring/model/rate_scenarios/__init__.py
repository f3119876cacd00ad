"""Scenarios by which a search judges plans: rate directions, known rates, statistics with errors."""
