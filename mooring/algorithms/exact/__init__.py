"""The best placement there is, for problems small enough."""
