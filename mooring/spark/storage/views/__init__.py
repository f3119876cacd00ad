"""Versions of materialized views on disk."""
