"""Concurrent changes of shared queries: locks, leases, reservations, replication, and the adaptation that
requests them."""
