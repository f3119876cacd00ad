"""The service that gives the documents out over HTTP, and takes requests for changes."""
