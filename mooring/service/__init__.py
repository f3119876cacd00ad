"""REST, metrics and the page: a run, or a problem file, as people and their tools look at it."""
