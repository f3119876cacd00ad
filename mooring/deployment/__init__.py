"""Runnable pieces: the engine protocol, and later fragments, channels and ordered moves."""
