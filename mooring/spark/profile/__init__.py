"""Profiles: the cost of every fragment, measured batch by batch at one quiet site."""
