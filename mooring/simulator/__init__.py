"""The data plane in virtual time, and runs over it."""
