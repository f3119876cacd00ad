"""Runnable pieces: fragments and their channels, ordered moves, and the protocol of what runs them."""
