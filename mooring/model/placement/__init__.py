"""Placements: validity, sharing, limits."""
