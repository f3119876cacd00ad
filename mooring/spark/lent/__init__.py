"""Tables of other pipelines: found among those beside this one, and read as they are committed."""
