"""Keeping a running pipeline well placed: collect, evaluate, decide, apply."""
