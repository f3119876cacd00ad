"""The wide area: topologies, routing, measured latencies, network coordinates and the cost space."""
