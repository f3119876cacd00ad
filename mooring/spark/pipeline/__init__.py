"""A project folder: definitions, the graph of flows, and the problem that policies place."""
