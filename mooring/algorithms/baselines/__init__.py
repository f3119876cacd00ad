"""The placements that the papers compare with."""
