"""What a search judges plans by: rate directions, known rates, statistics with errors."""
