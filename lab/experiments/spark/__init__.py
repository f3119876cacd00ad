"""Experiments on real Spark sites."""
