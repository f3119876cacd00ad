"""Leases under faults: the shared queries they are tried on, and what must hold of them."""
