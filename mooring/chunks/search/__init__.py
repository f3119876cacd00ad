"""Search over partitionings."""
