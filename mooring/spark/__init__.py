"""The data plane: sites, pipelines, fragments as streaming queries, and channels on Apache Spark."""
