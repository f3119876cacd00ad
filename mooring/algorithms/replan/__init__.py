"""A new plan once the world has changed."""
