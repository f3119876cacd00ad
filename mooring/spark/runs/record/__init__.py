"""The record of a run: its figures, its picture, its report."""
