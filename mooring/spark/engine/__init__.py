"""A pipeline while it runs: fragments as streaming queries, moves, measurements, the report."""
