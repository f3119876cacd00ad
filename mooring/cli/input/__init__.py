"""Command lines and files to values."""
