"""Collect, evaluate, decide, apply: what changes a running placement, with a journal."""
