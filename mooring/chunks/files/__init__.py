"""Chunk files: what `mooring chunks` reads."""
