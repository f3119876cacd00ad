"""Best placements, for small problems."""
