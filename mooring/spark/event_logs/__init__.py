"""Problems from the event logs of Spark queries that already run somewhere."""
