"""Who is where: placements, what is allowed, what is shared."""
