"""Queueing over a whole placement: sites and links as servers, and how long tuples take through them."""
