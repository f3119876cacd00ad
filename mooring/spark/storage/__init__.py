"""What lies on disk: the storage root, channels, fences, state and the logs Spark keeps."""
