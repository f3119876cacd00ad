"""Batch work on Spark: sweeps of experiments, and the rates of large traces."""
