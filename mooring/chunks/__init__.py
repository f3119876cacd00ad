"""Partitionings of operators' arrays, and assignments of chunks to sites."""
