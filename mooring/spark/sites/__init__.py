"""Places that run fragments: embedded Spark Connect servers, existing endpoints, and how they are asked."""
