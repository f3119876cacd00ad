"""Checkpoints: their parts, the state of a fragment, and the note of its flows."""
