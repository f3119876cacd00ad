"""A run session in virtual time, and what happens to it as data."""
