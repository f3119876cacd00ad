"""Concurrent changes of shared queries: locks, leases, reservations, replication, and what asks for them."""
