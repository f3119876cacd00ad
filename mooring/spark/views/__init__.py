"""Materialized views: what their refreshes read, when they are due, and how one is carried out."""
