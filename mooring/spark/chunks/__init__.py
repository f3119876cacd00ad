"""Array frames in chunks on Spark: as tasks of one cluster, or as jobs of several sites."""
