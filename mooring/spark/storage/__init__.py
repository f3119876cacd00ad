"""Storage on disk: the root, channels, fences, state and the logs of Spark."""
