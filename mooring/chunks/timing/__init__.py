"""The duration of frames: a compiled simulation of chunks, and a lower bound of all chunk plans."""
