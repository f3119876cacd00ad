"""The compiled event loop over plain arrays."""
