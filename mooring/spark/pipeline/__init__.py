"""What a project folder says: definitions, the graph of flows, and the problem that policies place."""
