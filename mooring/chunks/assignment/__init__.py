"""Which site gets which chunk."""
