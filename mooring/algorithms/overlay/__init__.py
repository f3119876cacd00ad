"""Adaptive overlays: shared queries with latency limits."""
