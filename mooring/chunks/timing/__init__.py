"""How long frames take: a compiled simulation of chunks, and what no chunk plan can undercut."""
