"""Ownership of a storage root: the owner's record, its lease, and take-over."""
