"""Placement by latency with queues: chains of a query graph, descent, and the ants' rules, compiled."""
