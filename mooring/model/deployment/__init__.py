"""Runnable pieces: fragments and their channels, ordered moves and their stages."""
