"""Shared queries with latency limits (adaptive overlays): plans made ahead, eliminated, kept in store."""
