"""Real arrivals: read, completed with addresses and sizes, split into sub-streams, and measured."""
